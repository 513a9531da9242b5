// Package cli is warmbox as a command line program: flags, environment variables, the
// configuration file, and exit codes.
//
// It turns them into values, picks the backend, and wires the packages that do
// the work. No other package reads TOML or decides an exit code, and this one
// does not know how boxes, tools and transports work. A main function calls Main
// and nothing else.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// A Program is a name with commands. Each has the commands help and version
// besides its own.
type Program struct {
	Name     string
	Overview string            // what help prints above the list of commands
	Commands []Command         // in the order of that list
	Default  string            // the command that runs when arguments name none
	Moved    map[string]string // by former command: a sentence that says what replaces it
}

// Warmbox is the program that users install.
func Warmbox() Program {
	return Program{
		Name: "warmbox", Default: "stdio",
		Overview: "warmbox runs commands for language models in warm, hardened containers.\n\n" +
			"An MCP client such as Claude Code starts it:\n\n" +
			"  claude mcp add warmbox -- warmbox --workspace .\n\n" +
			"To check the installation, and to run a command by hand:\n\n" +
			"  warmbox doctor\n" +
			"  warmbox exec -- 'uname -a; id'\n\n",
		Commands: append(Servers(), execCommand(), runCommand(), filterCommand(), keeperCommand(), doctorCommand(), imageBuildCommand(), listCommand(), sweepCommand(),
			policyCommand(), summarizeCommand(), configCommand()),
		Moved: map[string]string{"bench": "bench is now a separate program, warmbox-bench; in a checkout of warmbox run: go run ./cmd/warmbox-bench"},
	}
}

// Exit codes of warmbox itself. exec passes on the exit code of its command.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitTimedOut = 124 // exec killed the command, as with timeout(1)
	exitExec     = 125 // exec, run or filter could not run a command to its end, as with docker run
)

// Main runs a program on the arguments and standard streams of this process, and
// exits.
func Main(p Program) {
	// Standard output belongs to the protocol. os.Stdout is redirected to standard
	// error, so that a stray print in any package cannot corrupt the stream.
	stdout := os.Stdout
	os.Stdout = os.Stderr
	ctx := context.Background()
	if cmd, _, err := p.choose(os.Args[1:]); err != nil || !cmd.OwnSignals {
		ctx = untilSignal(ctx)
	}
	os.Exit(p.report(os.Stderr, p.run(ctx, os.Args[1:], os.Stdin, stdout, os.Stderr)))
}

// run runs the command that args name. Its error decides the exit code.
func (p Program) run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	cmd, args, err := p.choose(args)
	if err != nil {
		return err
	}
	c := &Call{Command: cmd, program: p, Stdin: stdin, Stdout: stdout, Stderr: stderr}
	err = c.run(ctx, args)
	if e, ok := errors.AsType[*usageError](err); ok && cmd.Name != "help" {
		e.command = cmd.Name
	}
	if err != nil && cmd.Refuse != nil && !c.started {
		err = &startError{err, func(why string) { cmd.Refuse(ctx, c, why) }}
	}
	return err
}

// A startError is why a command did not start that a client waits for.
type startError struct {
	cause  error
	refuse func(why string) // tells the client
}

func (e *startError) Error() string { return e.cause.Error() }
func (e *startError) Unwrap() error { return e.cause }

// shutdownTime bounds the whole shutdown. Supervisors kill a process after ten
// seconds. Boxes that are left then end themselves when their lease expires.
const shutdownTime = 9500 * time.Millisecond

// untilSignal returns a context that the first SIGINT, SIGTERM or SIGHUP cancels.
// The second one ends the process at once.
func untilSignal(parent context.Context) context.Context {
	// When a client disconnects, a write fails and the boxes are shut down in
	// order. SIGPIPE would end the process before that. It is caught and not
	// ignored, because commands would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ends := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	received := make(chan os.Signal, 1)
	signal.Notify(received, ends...)
	ctx, cancel := context.WithCancel(parent)
	go func() {
		select {
		case <-received:
		case <-ctx.Done():
		}
		// Stop comes first: a second signal that arrived before it would go to
		// the channel, which has no reader any more, and have no effect.
		signal.Stop(received)
		cancel()
		time.AfterFunc(shutdownTime, func() {
			fmt.Fprintf(os.Stderr, "warmbox: shutdown did not finish within %v; boxes that are left end by themselves within seconds\n", shutdownTime)
			os.Exit(exitFailed)
		})
	}()
	return ctx
}

// A codeError ends the program with an exit code. Without a cause, nothing is
// printed.
type codeError struct {
	code  int
	cause error
}

func (e *codeError) Error() string { return fmt.Sprintf("exit with %d: %v", e.code, e.cause) }
func (e *codeError) Unwrap() error { return e.cause }

// A usageError is a mistake in the command line or in the settings.
type usageError struct {
	text    string
	command string // the one whose help is suggested
	inFile  bool   // the mistake is in the configuration file, so the example file is suggested
}

func (e *usageError) Error() string { return e.text }

// Usagef returns an error about a mistake in the command line. The program exits
// with code 2 and suggests the help of the command.
func Usagef(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// report prints an error for the user, tells it to the client that waits for the command, and
// returns the exit code.
func (p Program) report(stderr io.Writer, err error) int {
	why, code := p.explain(err)
	if why == "" {
		return code
	}
	fmt.Fprintf(stderr, "%s: %s\n", p.Name, why)
	if e, ok := errors.AsType[*startError](err); ok {
		e.refuse(why)
	}
	return code
}

// explain returns an error with what to try, and the exit code. The text is "" if there is
// nothing to say.
func (p Program) explain(err error) (why string, code int) {
	if err == nil {
		return "", 0
	}
	code = exitFailed
	if e, ok := errors.AsType[*codeError](err); ok {
		if code, err = e.code, e.cause; err == nil {
			return "", code
		}
	}
	lines := []string{err.Error()}
	if e, ok := errors.AsType[*sandbox.Error](err); ok && e.Hint != "" {
		lines = append(lines, e.Hint)
	}
	if e, ok := errors.AsType[*usageError](err); ok {
		code = exitUsage
		try := strings.TrimSpace("help " + e.command)
		if e.inFile {
			try = "config"
		}
		lines = append(lines, "Try: "+p.Name+" "+try)
	}
	return strings.Join(lines, "\n"), code
}
