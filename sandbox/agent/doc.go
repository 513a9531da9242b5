// Package agent is what runs inside a box: it starts commands, carries their
// input and output over one stream (see package wire), tells how they ended and
// kills what belongs to them.
//
// In a box it is PID 1. What only a PID 1 may do, such as waiting for any child
// or killing every process there is, it does only then; started elsewhere, as an
// ordinary process, it is its own subreaper and touches nothing but what
// descends from it.
//
// A run has pipes or a terminal of its own. It runs in a new shell, or in a named
// one, which keeps the working directory, variables, arrays, functions, aliases,
// options, traps, umask, positional parameters, directory stack and the last exit
// code for the next run of its name. It does not keep
//
//   - background processes as jobs (they run on, and are no longer jobs of anybody),
//   - open descriptors, limits (ulimit), extdebug, the history and completions,
//   - what a command changed that was killed, that exec'ed another program, or that
//     left by exit under a trap on EXIT of its own; the shell is then as before.
//
// Variables that are local to a function which exits become the shell's.
//
// Where its host wants it, shells stand ready that were started before a command
// came, called spares (see spare). A command runs on one if it can be to it what a
// new shell would be: it has no input, terminal or named shell, is shorter than 8 KiB,
// and is given no variable that bash itself makes something of. All that it can then
// see of it is
//
//   - in /proc, that its shell began earlier, zeros behind it in cmdline, and of that
//     shell's environ that variables of its own call's are not in it,
//   - PIPESTATUS before the first pipeline: it is 0 where it would be unset, and
//     BASH_ARGC, which holds a 0 where it would be empty,
//   - the order of variables in an environment, where its own call gives some,
//   - the shells that wait beside it, but not into them.
//
// Where its host keeps the box it outlives the host, for as long as that said: it
// looks for the next one, and keeps the last 16 MB of what runs print for it. What
// there was of input when a host went goes to the command. Time limits are not kept
// while nobody is there.
//
// It trusts neither side. Commands run with the same user id, so it makes itself
// non-dumpable before anything else runs (they can then neither trace it nor
// open what it has open), catches every signal, and drops those that claim to be its
// own faults. From each other it keeps them by Landlock, where the kernel has it: a
// run can trace what it started, and no other run, nor a spare. Files and signals they
// share. Where a limit of its own is lowered it ends. It never forks to kill, and
// its threads stand ready, so that a box at its process limit can still be
// emptied. It decides nothing: time limits, logs and policy are the host's.
package agent
