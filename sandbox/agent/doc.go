// Package agent is what runs inside a box: it starts commands, carries their
// input and output over one stream (see package wire), tells how they ended and
// kills what belongs to them.
//
// In a box it is PID 1. What only a PID 1 may do, such as waiting for any child
// or killing every process there is, it does only then; started elsewhere, as an
// ordinary process, it is its own subreaper and touches nothing but what
// descends from it.
//
// It trusts neither side. Commands run with the same user id, so it makes itself
// non-dumpable before anything else runs (they can then neither trace it nor
// open what it has open) and catches every signal. It never forks to kill, and
// its threads stand ready, so that a box at its process limit can still be
// emptied. It decides nothing: time limits, logs and policy are the host's.
package agent
