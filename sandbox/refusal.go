package sandbox

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// refusal says why a command did not start. The agent names a step and the kernel's
// error number; the text is the host's.
func refusal(r *Run, b wire.RefusedBody) error {
	if b.Step == wire.StepTold && r.Box.Place.Backend == KeptBackend {
		return &Error{Code: b.Code, Text: b.Text, Hint: b.Hint}
	}
	why := errnoText(b.Errno)
	switch b.Step {
	case wire.StepDir:
		dir := r.Command.Dir
		if dir == "" {
			dir = r.Box.Place.Dir
		}
		if dir == r.Box.Place.Workspace && b.Errno == noEntry {
			return NoWorkspace(dir) // of a box that has the host's own files
		}
		return Errorf(InvalidArgument, "Give a directory that exists in the box; the workspace is "+r.Box.Place.Dir+".",
			"cannot run in the working directory %q: %s", dir, why)
	case wire.StepTTY:
		if b.Errno == 28 { // its /dev/pts has no limit of its own
			why = "no terminal is left on the machine that it runs on (kernel.pty.max)"
		}
		return Errorf(LimitReached, "Run the command without tty, or start another box.", "cannot make a terminal in box %s: %s", r.Box.ID, why)
	case wire.StepShell:
		if b.Errno == 0 {
			return Errorf(InvalidArgument, "Leave shell out, or use an image that has bash.", "a named shell needs bash, and box %s has none", r.Box.ID)
		}
		return Errorf(LimitReached, "Free disk space in the box, or leave shell out.", "cannot store the state of the shell %q in box %s: %s", r.Command.Shell, r.Box.ID, why)
	case wire.StepExec:
		if b.Errno == noEntry {
			what := "it"
			if image := r.Box.Place.Image; image != "" {
				what = "its image " + strconv.Quote(image)
			}
			return Errorf(InvalidArgument, "Use an image that has a shell: start with another image, or leave containerId out for the default one.",
				"no command can run in box %s: %s has no shell (%s)", r.Box.ID, what, QuotePath(r.Box.Shell))
		}
		return Errorf(LimitReached, "Stop commands that still run in the box, or start another box.",
			"cannot start a shell in box %s: %s", r.Box.ID, why)
	}
	return Errorf(LimitReached, "Stop commands that still run in the box, or start another box.",
		"cannot prepare a command in box %s: %s", r.Box.ID, why)
}

// noEntry is the number of Linux for what is not there.
const noEntry = 2

// errnoText renders an error number of Linux, which the host need not be.
func errnoText(n int) string {
	switch n {
	case noEntry:
		return "no such file or directory"
	case 7:
		return "command and environment are too long together"
	case 11:
		return "the box has as many processes as it may have"
	case 12:
		return "out of memory"
	case 13:
		return "permission denied"
	case 20:
		return "not a directory"
	case 23, 24:
		return "too many open files"
	case 28:
		return "no space left on its disk"
	case 30:
		return "its file system is read-only"
	case 36:
		return "file name too long"
	case 40:
		return "too many symbolic links"
	}
	return fmt.Sprintf("error number %d of Linux", n)
}

// signalNames are those of Linux, by number, on every architecture that we serve.
var signalNames = [...]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 16: "SIGSTKFLT",
	17: "SIGCHLD", 18: "SIGCONT", 19: "SIGSTOP", 20: "SIGTSTP", 21: "SIGTTIN", 22: "SIGTTOU", 23: "SIGURG", 24: "SIGXCPU",
	25: "SIGXFSZ", 26: "SIGVTALRM", 27: "SIGPROF", 28: "SIGWINCH", 29: "SIGIO", 30: "SIGPWR", 31: "SIGSYS",
}

// signalName returns "" for 0, "SIGKILL" for 9, "SIG40" for a real-time signal.
func signalName(n int) string {
	switch {
	case n == 0:
		return ""
	case n < len(signalNames):
		return signalNames[n]
	}
	return fmt.Sprintf("SIG%d", n)
}

// toldGone returns why a box is gone, as the process that held it says by a Refused of
// KeptGone. Any other frame of an unknown run violates the protocol.
func (b *Box) toldGone(f wire.Frame) error {
	var body wire.RefusedBody
	if b.Place.Backend != KeptBackend || f.Kind != wire.Refused || f.Run != wire.ID([]byte(KeptGone)) {
		return wire.Violation("%v of an unknown run", f.Kind)
	}
	if err := wire.Decode(f, &body); err != nil {
		return err
	}
	return &Error{Code: body.Code, Text: body.Text, Hint: body.Hint}
}

// lost says why a run is lost with its box. Of a box that another process holds, only that
// process knows the id.
func (r *Run) lost(hint string, cause error) error {
	if r.Box.Place.Backend != KeptBackend {
		return Errorf(BoxGone, hint, "box %s ended while the command ran: %w", r.Box.ID, cause)
	}
	if told, ok := errors.AsType[*Error](cause); ok {
		return told
	}
	return Errorf(BoxGone, hint, "the connection to the box failed while the command ran: %w", cause)
}
