// Package agent runs inside a box: it starts commands, carries their input and output
// over one stream (see package wire), reports how they ended and kills the processes
// that belong to them. It decides nothing: time limits, logs and policy are the host's.
//
// In a box the agent is PID 1. What only a PID 1 may do, such as reaping any child or
// killing every process, it does only then. Started as an ordinary process it is its own
// subreaper and touches only its own descendants.
//
// # Runs
//
// A run has pipes or a terminal. It runs in a new shell or in a named one. A named shell
// keeps the working directory, variables, arrays, functions, aliases, options, traps,
// umask, positional parameters, directory stack and the last exit code for the next run
// of its name. It does not keep
//
//   - background processes as jobs (they run on, but no shell lists them as jobs),
//   - open descriptors, limits (ulimit), extdebug, the history and completions,
//   - the changes of a command that was killed, that replaced the shell by exec, or that
//     exited under its own trap on EXIT; the shell is then as before the command.
//
// The local variables of a function that exits become variables of the shell.
//
// # Spare shells
//
// If the host asks for it, the agent keeps spare shells: shells that it started before
// a command arrived (see spare). A command runs on one only if that is equivalent to a
// new shell: it has no input, terminal or named shell, is shorter than 8 KiB, and sets no
// variable that has a meaning for bash itself. The command can still see these
// differences:
//
//   - in /proc: its shell began earlier, zeros follow the command in cmdline, and the
//     shell's environ lacks the variables of the call,
//   - PIPESTATUS before the first pipeline is 0 instead of unset, and BASH_ARGC holds a 0
//     instead of being empty,
//   - the order of variables in an environment, if the call sets some,
//   - the other spare shells as processes, which it cannot look into.
//
// # Persistent boxes
//
// The agent of a persistent box outlives its host for the time that the host gave. It
// waits for the next host and keeps the last 16 MB of output of all runs for it. Input
// that a host had sent still goes to the command. Time limits are not enforced while no
// host is attached.
//
// # Protection
//
// The agent trusts neither side. Commands run with its user id. So it makes itself
// non-dumpable before anything else runs: commands can then neither trace it nor open its
// descriptors. It catches every signal, and drops those that imitate a fault of its own.
// Where the kernel has Landlock, a run can trace what it started, but no other run and
// no spare shell; runs share files and signals. The agent ends if a limit of its own is
// lowered. It never forks to kill, and starts its threads in advance, so it can empty a
// box that is at its process limit.
//
// # Files, in reading order
//
//   - main.go: the command line; agent.go: the Agent, one host's frames after the other
//   - stream.go: where hosts come from; outbox.go: sending frames
//   - run.go: a run from Start to Closed; input.go, output.go, tty.go: its streams
//   - shell.go: the shell program; fork.go, fork_*.s: starting a process
//   - spare.go: one spare shell; spares.go: how many there are, and which runs get one
//   - named.go, bootstrap.go: named shells and the script that restores their state
//   - processes.go: what the agent knows of processes, and its lock; reap.go: reaping
//   - proc.go: /proc; tree.go: which process belongs to which run; kill.go, signal.go
//   - persistent.go, ring.go: output and runs for the next host of a persistent box
//   - harden.go, handler_*.s, domain.go, limits.go: protection from commands
//   - memory.go: kills for want of memory; files.go: the answer to a Look
//   - window.go: the windows of output that the host passes on
//   - programs.go, programs_*.go: records of the programs that processes execute
//   - shimentry_*.s, shimcall.go: a shim; shim.go, shimwire.go: the agent's side of shims
package agent
