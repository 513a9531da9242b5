// Command warmbox runs commands for language models in warm, hardened
// containers, and serves them over MCP.
//
// This package turns flags, the environment and a file into values, picks the
// backend, and calls what does the work. It knows TOML and exit codes, and no
// other package does; how boxes, tools and transports work it does not know.
package main

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

// The exit codes of warmbox itself. A command that exec ran has its own.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitTimedOut = 124 // exec killed the command; as timeout has it
	exitExec     = 125 // exec could not run the command to its end; as docker run has it
)

func main() {
	// The protocol has standard output for itself. Whatever some package prints
	// in passing would break it, and goes where logs go.
	stdout := os.Stdout
	os.Stdout = os.Stderr
	ctx := untilSignal(context.Background())
	os.Exit(report(os.Stderr, run(ctx, os.Args[1:], os.Stdin, stdout, os.Stderr)))
}

// run is the program. What it returns decides the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	cmd, args, err := choose(commands(), args)
	if err != nil {
		return err
	}
	c := &call{command: cmd, stdin: stdin, stdout: stdout, stderr: stderr}
	given, err := c.parse(args)
	if errors.Is(err, errHelp) {
		return c.printHelp()
	}
	if err != nil {
		return err
	}
	if cmd.bare {
		return cmd.run(ctx, c)
	}
	c.given = given
	if c.config, err = load(given); err != nil {
		return &usageError{err.Error(), cmd.name}
	}
	closeLog, err := c.openLog()
	if err != nil {
		return err
	}
	return errors.Join(cmd.run(ctx, c), closeLog())
}

// shutdownTime is what everything that ends with the program may take together.
// Supervisors kill after ten seconds; whatever is left of a box then ends itself
// when its lease is over.
const shutdownTime = 9500 * time.Millisecond

// untilSignal returns a context that ends with the first signal to end. The
// second one ends the program at once.
func untilSignal(parent context.Context) context.Context {
	// A client that went away shows as a write that fails, and the boxes are
	// taken down in order; the signal would kill us before. It is caught rather
	// than ignored, since commands would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ends := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, ends...)
	ctx, cancel := context.WithCancel(parent)
	go func() {
		select {
		case <-heard:
		case <-ctx.Done():
		}
		// Before anything shows of the first: a second would not be heard, and do nothing.
		signal.Stop(heard)
		cancel()
		time.AfterFunc(shutdownTime, func() {
			fmt.Fprintf(os.Stderr, "warmbox: not everything ended within %v; what is left ends by itself in some seconds\n", shutdownTime)
			os.Exit(exitFailed)
		})
	}()
	return ctx
}

// A codeError ends the program with an exit code. Without a cause there is
// nothing to say about it.
type codeError struct {
	code  int
	cause error
}

func (e *codeError) Error() string { return fmt.Sprintf("exit with %d: %v", e.code, e.cause) }
func (e *codeError) Unwrap() error { return e.cause }

// A usageError is a mistake in the command line or the settings.
type usageError struct {
	text    string
	command string // whose help tells more
}

func (e *usageError) Error() string { return e.text }

// report tells the user of an error and returns the exit code.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	code := exitFailed
	if e, ok := errors.AsType[*codeError](err); ok {
		code, err = e.code, e.cause
	}
	if err == nil {
		return code
	}
	fmt.Fprintf(stderr, "warmbox: %v\n", err)
	if e, ok := errors.AsType[*sandbox.Error](err); ok && e.Hint != "" {
		fmt.Fprintln(stderr, e.Hint)
	}
	if e, ok := errors.AsType[*usageError](err); ok {
		code = exitUsage
		fmt.Fprintln(stderr, strings.TrimSpace("Try: warmbox help "+e.command))
	}
	return code
}
