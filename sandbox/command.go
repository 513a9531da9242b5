package sandbox

import (
	"encoding/json"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// MaxCommand bounds the text of a command. Linux takes 128 KiB as one
	// argument; a longer one the agent passes to the shell another way.
	MaxCommand = 1 << 20
)

// machineEnv makes programs speak to a program: no colours, no pagers, no
// questions, the same language everywhere, and output at once: Python keeps 8 KiB back
// from a pipe, which a command that is still running would not show.
var machineEnv = []string{
	"NO_COLOR=1", "TERM=dumb", "PAGER=cat", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0",
	"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "PYTHONUNBUFFERED=1",
}

// Command is what to run.
type Command struct {
	Cmd            string
	Dir            string            // where; relative to the box's own directory
	Env            map[string]string // over the box's
	Stdin          io.Reader         // what it reads first; nil is nothing
	Approval       Approval          // of a user, given before the call; "": none
	Approve        ApproveFunc       // asks the user where the allowlist lacks the command; nil: such a command is denied
	Timeout        time.Duration     // after which its whole tree is killed; 0 is none
	ExcerptSize    int               // bytes at the ends of each stream that Output can show; 0 is DefaultExcerptSize
	SummarizeAbove int               // output of more bytes gets a Digest; 0: none does
	Want           string            // what the Digest should show first, at most MaxWant characters: words, paths, names

	// Stdout and Stderr receive its output byte for byte, each stream in its order, as it
	// comes. Such a run has no log, no Output and no Digest, its secrets are not masked, and
	// it ends with its server also in a persistent box. A writer that blocks makes the program
	// wait, and nothing else. After an error of a writer, the program writes to a closed pipe.
	// Both are set, or neither.
	Stdout, Stderr io.Writer

	// Interactive keeps its input open after Stdin, for Run.Input. Else there is
	// none but Stdin.
	Interactive bool

	// TTY gives it a terminal of that size, and a TERM that says so. All that it
	// prints is then Stdout. Its input stays open, but after a Stdin ^D is typed
	// unless it is Interactive.
	TTY *Size

	// Shell names the shell of the box that it runs in: with the directory,
	// variables, functions and options that the last command there ended with. Dir and
	// Env override those, for later commands too. "" is a new shell.
	Shell string

	// WaitLimit is how long it may be queued, behind other commands where too many run,
	// and behind those before it in its Shell.
	WaitLimit time.Duration
}

// Size is a terminal's, in columns and rows.
type Size = wire.Size

// DefaultExcerptSize is how much of a run's output is at hand without its log.
const DefaultExcerptSize = 8000

// MaxWant is the maximum length of Command.Want in characters.
const MaxWant = 100

// Check returns what is wrong with the command, whatever the box. Exec checks it too; a
// caller that has to start a box first checks before that.
func (c Command) Check() error {
	switch {
	case strings.TrimSpace(c.Cmd) == "":
		return Errorf(InvalidArgument, "Give a shell command such as \"ls -la\".", "cmd is empty")
	case len(c.Cmd) > MaxCommand:
		return Errorf(InvalidArgument, "Write the command to a file, or pass it as stdin, and run that.",
			"cmd has %d bytes, more than the %d allowed", len(c.Cmd), MaxCommand)
	case strings.ContainsRune(c.Cmd, 0):
		return Errorf(InvalidArgument, "Give binary data as stdin, or write it with printf '\\0'.", "cmd must not contain a NUL byte")
	case strings.ContainsRune(c.Dir, 0):
		return Errorf(InvalidArgument, "", "workdir must not contain a NUL byte")
	case utf8.RuneCountInString(c.Want) > MaxWant:
		return Errorf(InvalidArgument, "Give the words, paths or names to look for, or search the output with logs.",
			"want has %d characters, more than the %d allowed", utf8.RuneCountInString(c.Want), MaxWant)
	case (c.Stdout == nil) != (c.Stderr == nil):
		return errNoWriter
	case c.bridged() && (c.TTY != nil || c.Shell != ""):
		return Errorf(InvalidArgument, "Leave tty and shell out.", "a command whose output is passed on has neither a terminal nor a named shell")
	case c.Timeout < 0:
		return Errorf(InvalidArgument, "For the default time limit leave the timeout out.", "timeout must not be negative, got %v", c.Timeout)
	}
	if c.TTY != nil {
		if err := checkSize(*c.TTY); err != nil {
			return err
		}
	}
	if err := checkShell(c.Shell); err != nil {
		return err
	}
	return checkEnv(c.Env, MaxEnv)
}

// start is the command as the agent receives it.
func (c Command) start() wire.StartBody {
	env := pairs(c.Env)
	switch {
	case c.TTY != nil:
		env = append([]string{"TERM=xterm-256color"}, env...)
	case c.Shell != "":
		env = append([]string{"TERM=dumb"}, env...) // not the TERM of an earlier terminal in the shell
	}
	body := wire.StartBody{Cmd: c.Cmd, Dir: c.Dir, Env: env, Stdin: c.hasInput(), TTY: c.TTY, Shell: c.Shell}
	if c.bridged() {
		body.Window = bridgeWindow
	}
	return body
}

// inputWindow is the window of its input.
func (c Command) inputWindow() int {
	if c.bridged() {
		return bridgeWindow
	}
	return wire.StdinWindow
}

// bridged reports whether the output of the command goes to writers of the caller.
func (c Command) bridged() bool { return c.Stdout != nil }

// hasInput reports whether the command reads anything but /dev/null.
func (c Command) hasInput() bool { return c.Stdin != nil || c.Interactive || c.TTY != nil }

// A note is what the log of a run in a persistent box says of its command besides its
// head.
type note struct {
	TimeoutMillis int64  `json:"timeoutMs,omitempty"`
	Input         bool   `json:"input,omitempty"`
	TTY           *Size  `json:"tty,omitempty"`
	Shell         string `json:"shell,omitempty"`
}

func (c Command) note() string {
	text, _ := json.Marshal(note{c.Timeout.Milliseconds(), c.hasInput(), c.TTY, c.Shell}) // which numbers and strings cannot fail
	return string(text)
}

func checkSize(s Size) error {
	if !s.Valid() {
		return Errorf(InvalidArgument, "80 by 24 is usual.", "a terminal cannot have %d columns and %d rows", s.Cols, s.Rows)
	}
	return nil
}
