package sandbox

import (
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// Status is the state of a run.
type Status string

// The statuses of a run.
const (
	Running  Status = "running"
	Exited   Status = "exited"
	Killed   Status = "killed"
	TimedOut Status = "timeout"
	OOM      Status = "oom"
	Lost     Status = "lost" // its box ended under it
)

// Exit says how a command ended. A command that failed is a value; Err is set
// only where we do not know what happened.
type Exit struct {
	Status   Status
	Code     int    // 0 to 255, from the kernel; -1 where there is none
	Signal   string // "SIGKILL"; empty where none ended it
	Took     time.Duration
	AtLeast  bool   // it may have run longer than Took: its end was not seen
	Leftover []Proc // what still runs, at most wire.MaxLeftover of it
	More     int    // what else still runs
	Shell    string // what became of its named shell: "saved", "kept" as it was before, or "lost" with all from before; "" without one
	Err      error  // of a Lost or never started run, and of one that the host Killed for a reason of its own

	// MemoryKill is not nil where the kernel killed a process of the box for want of
	// memory while the command ran. It was the command's own, and the status is OOM
	// if it failed, where no other ran meanwhile.
	MemoryKill *MemoryKill
}

// failed reports whether the command has ended without success.
func (e Exit) failed() bool {
	return e.Status != Running && (e.Status != Exited || e.Code != 0)
}

// A MemoryKill is a process that the kernel killed for want of memory.
type MemoryKill struct {
	Limit  int64 // how much memory the box may have, in bytes; 0: unknown
	Shared bool  // other commands ran in the box meanwhile: it may have been theirs
}

// Proc is a process that a run left behind. Its name is the box's own text.
type Proc = wire.Proc

func checkExit(b wire.ExitBody, shell string) error {
	switch b.Shell {
	case "", wire.ShellSaved, wire.ShellKept, wire.ShellLost:
		if (b.Shell == "") == (shell == "") {
			break
		}
		fallthrough
	default:
		return wire.Violation("%v with an invalid state of its named shell, of %d bytes, or without one", wire.Exit, len(b.Shell))
	}
	if b.Code < 0 || b.Code > 255 || b.Signal < 0 || b.Signal > 64 || b.More < 0 || len(b.Leftover) > wire.MaxLeftover {
		return wire.Violation("Exit with code %d, signal %d, %d leftover", b.Code, b.Signal, len(b.Leftover))
	}
	for _, p := range b.Leftover {
		if p.Pid < 1 || len(p.Name) > 64 {
			return wire.Violation("Exit with a leftover process %d, name of %d bytes", p.Pid, len(p.Name))
		}
	}
	return nil
}
