package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/shellquote"
	"github.com/warmbox/warmbox/tools"
)

const (
	// startUpTime is how long a program that serves a client runs at least. If it ends
	// earlier although its client is there, it did not start.
	startUpTime = 5 * time.Second

	// insistTime is within how much time a second SIGINT or SIGTERM ends the program for
	// certain: it did not obey the first.
	insistTime = 2 * time.Second

	// unreadTime is how long a program may run on after its output has lost its reader.
	unreadTime = 2 * time.Second

	// leftTime is how long the output of a program that a signal ended may take to be
	// written: its client wants to know of the end.
	leftTime = 500 * time.Millisecond
)

func runCommand() Command {
	var box string
	return Command{
		Name: "run", Arguments: "-- PROGRAM ARGS…", OwnSignals: true,
		Short: "runs a program in a box, with its standard streams joined to those of warmbox",
		Long: "Runs a program in a box of its own: an MCP server, an ACP agent, a language server. Its standard input, output\n" +
			"and error are those of warmbox, byte for byte: nothing in them is masked, logged or shortened. The arguments are\n" +
			"a program and its arguments; for a shell command line, run sh -c.\n\n" +
			"  warmbox run --workspace . -- python3 server.py\n" +
			"  claude mcp add files -- warmbox run --image node:22 --network bridge -- npx -y some-mcp-server\n\n" +
			"With --box NAME the programs of several calls share a persistent box: it stays when they end, with its files\n" +
			"outside the workspace, for as long as keep_for says. A process in the background holds it meanwhile. A program\n" +
			"ends with its own call, and no other does.\n\n" +
			"The program ends when it wants to: the end of its input, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2\n" +
			"are passed on. A second SIGINT or SIGTERM within 2 seconds kills it. A terminal is passed on as pipes. If warmbox\n" +
			"ends, however that happens, so does the program.\n\n" +
			"It exits with the exit code of the program, or with 128 plus the number of the signal that ended it, or with 125\n" +
			"if it could not be run. If the code is not 0, or if the program ends within its start-up time of 5 seconds\n" +
			"although its input has not ended, standard error gets the last lines of the program's, and what to try.",
		Flags: func(fs *flag.FlagSet) {
			fs.Func("box", "`NAME` of a persistent box to run in; if not set, a box of its own", func(name string) error {
				if box = name; name == "" {
					return errors.New("a box needs a name, such as dev; without --box the program has a box of its own")
				}
				return nil
			})
		},
		Run: func(ctx context.Context, c *Call) error {
			if len(c.Args) == 0 {
				return Usagef("run needs a program after its flags, as in: warmbox run -- python3 server.py")
			}
			return c.runProgram(ctx, box)
		},
	}
}

// runProgram runs a program in a box, and returns its exit code as an error.
func (c *Call) runProgram(ctx context.Context, name string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &passer{cancel: cancel}
	received, stop := catchSignals()
	defer stop()
	go p.pass(received)
	held := &heldLog{}
	defer held.release()
	log := c.Log
	if c.Config.Log.File == "" {
		log = slog.New(heldHandler{log.Handler(), held})
	}
	c.warnOfVariables()
	manager, err := c.runManager(name, log)
	if _, usage := errors.AsType[*usageError](err); usage {
		return err
	}
	if err != nil {
		return &codeError{exitExec, err}
	}
	defer signOff(manager)
	defer manager.Close()
	box, err := manager.DefaultBox(ctx, sandbox.Owner{}, func(line string) { fmt.Fprintln(c.Stderr, line) })
	if err == nil {
		held.hold()
		err = c.bridge(ctx, manager, box, p)
	}
	if s, ok := errors.AsType[caught](context.Cause(ctx)); ok && err != nil && !isCode(err) {
		return &codeError{128 + signalNumber(s.Signal), nil}
	}
	if err != nil && !isCode(err) {
		err = &codeError{exitExec, err}
	}
	return err
}

// runManager returns the manager of the box of a name, or of a new box if that is "".
func (c *Call) runManager(name string, log *slog.Logger) (*sandbox.Manager, error) {
	if name == "" {
		return newManager(c.Config, log)
	}
	return c.keptManager(name, log)
}

func isCode(err error) bool {
	_, ok := errors.AsType[*codeError](err)
	return ok
}

// bridge runs the program in a box until it has ended and all that it printed is written.
func (c *Call) bridge(ctx context.Context, manager *sandbox.Manager, box *sandbox.Box, p *passer) error {
	if i := invalidText(c.Args); i >= 0 && !strings.HasSuffix(box.Shell, "/bash") {
		return fmt.Errorf("argument %d of the program is not valid UTF-8, and to pass on such bytes a box needs bash; use an image that has it", i)
	}
	in := &watchedInput{Reader: c.Stdin}
	var tail sandbox.LastLines
	run, err := box.Exec(ctx, sandbox.Command{
		Cmd: shellquote.BashLine(c.Args), Stdin: in, Stdout: c.Stdout, Stderr: io.MultiWriter(&tail, c.Stderr),
	})
	if err != nil {
		return err
	}
	p.attach(run)
	killed := awaitProgram(run)
	exit := run.Exit()
	p.awaitDelivered(run, exit)
	if exit.Err != nil && exit.Status != sandbox.Lost {
		return exit.Err
	}
	if exit.Code != 0 || exit.Took < startUpTime && !in.ended.Load() {
		c.tellEnd(end{run: run, exit: exit, signal: p.passed(), stderr: manager.Mask(tail.String()), alone: len(c.Args) == 1, killed: cmp.Or(p.insisted(), killed)})
	}
	switch {
	case exit.Err != nil:
		return exit.Err
	case exit.Code == 0:
		return nil
	}
	return &codeError{code: exit.Code}
}

// invalidText returns the index of the first word that is not valid UTF-8, or -1.
func invalidText(words []string) int {
	for i, word := range words {
		if !utf8.ValidString(word) {
			return i
		}
	}
	return -1
}

// awaitProgram waits for the end of a program. If its output has no reader any more, it
// writes to a closed pipe, and is killed if it does not end by that. It returns why it
// was killed, or "".
func awaitProgram(run *sandbox.Run) string {
	select {
	case <-run.Done():
		return ""
	case <-run.Unread(sandbox.Stdout):
	}
	select {
	case <-run.Done():
		return ""
	case <-time.After(unreadTime):
		run.Kill()
		<-run.Done()
		return fmt.Sprintf("it still ran %v after its standard output had been closed", unreadTime)
	}
}

// watchedInput knows whether it has ended.
type watchedInput struct {
	io.Reader
	ended atomic.Bool
}

func (r *watchedInput) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil {
		r.ended.Store(true)
	}
	return n, err
}

// caught is the cause of a context that a signal ended.
type caught struct{ os.Signal }

func (c caught) Error() string { return "caught " + c.String() }

// A passer passes signals on to the program. Before that runs, one ends the start.
type passer struct {
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	run   *sandbox.Run
	last  string    // the last signal
	twice bool      // the program was killed for not obeying the first signal
	asked time.Time // when a SIGINT or SIGTERM was last passed on
	leave func()    // ends the wait for a slow reader; nil before the program has ended
}

func (p *passer) pass(received <-chan os.Signal) {
	for s := range received {
		p.handle(s, time.Now())
	}
}

func (p *passer) handle(s os.Signal, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := passedSignals[s]
	ends := name == "INT" || name == "TERM"
	p.last = name
	switch {
	case p.run == nil:
		p.cancel(caught{s})
	case p.leave != nil:
		p.leave()
	case ends && !p.asked.IsZero() && now.Sub(p.asked) < insistTime:
		p.twice = true
		p.run.Signal("KILL")
	default:
		if ends {
			p.asked = now
		}
		p.run.Signal(name) // one that comes too late has no effect
	}
}

func (p *passer) attach(run *sandbox.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run = run
}

// passed names the last signal that was received, "" for none.
func (p *passer) passed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// insisted says why a second signal killed the program, or "" if none did.
func (p *passer) insisted() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.twice {
		return ""
	}
	return fmt.Sprintf("SIGINT or SIGTERM came twice within %v", insistTime)
}

// awaitDelivered waits until all that the program printed is written. A signal ends that.
func (p *passer) awaitDelivered(run *sandbox.Run, exit sandbox.Exit) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if exit.Signal != "" || exit.Status == sandbox.Lost {
		defer time.AfterFunc(leftTime, cancel).Stop()
	}
	p.mu.Lock()
	p.leave = cancel
	p.mu.Unlock()
	run.Delivered(ctx) // a reader that is gone wants nothing
}

// An end is how a program ended, for the user.
type end struct {
	run    *sandbox.Run
	exit   sandbox.Exit
	signal string // that was passed on, or ""
	stderr string // the last lines, masked
	alone  bool   // the program has no arguments
	killed string // why warmbox killed it, or ""
}

// tellEnd writes how the program ended, and what to try. The program's own lines have been
// written already, but many a client shows only the last lines, or drops what precedes.
func (c *Call) tellEnd(e end) {
	fmt.Fprintf(c.Stderr, "%s: %s\n", c.program.Name, e.text(c.Args[0]))
}

func (e end) text(program string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s after %s", sandbox.QuotePath(program), e.how(), took(e.exit.Took))
	if e.exit.Took < startUpTime {
		fmt.Fprintf(&b, ", within its start-up time of %v", startUpTime)
	}
	if e.signal != "" {
		fmt.Fprintf(&b, "; SIG%s had been passed on to it", e.signal)
	}
	if e.killed != "" && e.exit.Signal != "" {
		fmt.Fprintf(&b, "; warmbox killed it, because %s", e.killed)
	}
	if e.stderr == "" {
		b.WriteString(". It printed nothing on stderr.")
	} else {
		b.WriteString(". The last lines of its stderr:")
		for line := range strings.Lines(excerpt.Inert([]byte(e.stderr))) {
			b.WriteString("\n  | " + strings.TrimSuffix(line, "\n"))
		}
	}
	for _, hint := range e.hints(program) {
		b.WriteString("\n" + hint)
	}
	return b.String()
}

// how says how the program ended.
func (e end) how() string {
	switch {
	case e.exit.Status == sandbox.Lost:
		return "was lost"
	case e.exit.Status == sandbox.OOM:
		return "ended because memory was short"
	case e.exit.Signal != "":
		return "was ended by " + e.exit.Signal
	}
	return fmt.Sprintf("ended with exit code %d", e.exit.Code)
}

// hints says what to try.
func (e end) hints(program string) []string {
	if e.signal != "" || e.exit.Status == sandbox.Lost {
		return nil
	}
	if e.exit.Code == 127 && e.alone && strings.ContainsAny(program, " \t\n") {
		return []string{fmt.Sprintf("The one argument %s, with its blanks, is the name of a program. Give the program and its arguments separately, as in: warmbox run -- %s",
			sandbox.QuotePath(program), excerpt.Inert([]byte(strings.Join(strings.Fields(program), " "))))}
	}
	list := tools.ProgramHints(e.run, e.exit, e.stderr)
	image := e.run.Box.Describe().Image
	switch {
	case len(list) > 0:
	case e.exit.Code == 127 && image != "":
		list = []string{fmt.Sprintf("Is %s in the image %s? If not, choose another image with --image, or install it in the workspace.", sandbox.QuotePath(program), image)}
	case e.exit.Code == 126:
		list = []string{"The file cannot be executed: check its permissions and its first line."}
	}
	return list
}

// took renders how long a program ran.
func took(d time.Duration) time.Duration {
	if d < time.Second {
		return cmp.Or(d.Round(time.Millisecond), time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// maxHeld is how many log lines are held back at most.
const maxHeld = 200

// A heldLog holds back log lines while a program runs whose standard error is ours: only
// the program writes there.
type heldLog struct {
	mu      sync.Mutex
	holding bool
	lines   []func() error
}

func (h *heldLog) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holding = true
}

// release writes the lines. Later ones are written at once.
func (h *heldLog) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holding = false
	for _, line := range h.lines {
		line()
	}
	h.lines = nil
}

// write writes a line or holds it back. Beyond maxHeld, the oldest is dropped.
func (h *heldLog) write(line func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.holding {
		return line()
	}
	if len(h.lines) == maxHeld {
		h.lines = h.lines[1:]
	}
	h.lines = append(h.lines, line)
	return nil
}

// A heldHandler passes log lines through a heldLog.
type heldHandler struct {
	slog.Handler
	held *heldLog
}

func (h heldHandler) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	return h.held.write(func() error { return h.Handler.Handle(ctx, r) })
}

func (h heldHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return heldHandler{h.Handler.WithAttrs(attrs), h.held}
}

func (h heldHandler) WithGroup(name string) slog.Handler {
	return heldHandler{h.Handler.WithGroup(name), h.held}
}
