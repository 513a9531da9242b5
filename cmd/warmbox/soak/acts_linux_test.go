package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// An act is something that a visitor does, more or less often.
type act struct {
	do    func(*visitor, context.Context)
	often int
}

func acts() []act {
	return []act{
		{func(v *visitor, ctx context.Context) { v.says(ctx, "") }, 20},
		{(*visitor).fails, 5},
		{(*visitor).follows, 4},
		{(*visitor).cancels, 4},
		{(*visitor).stubborn, 2},
		{(*visitor).leavesDaemon, 3},
		{(*visitor).floods, 1},
		{(*visitor).bombs, 1},
		{(*visitor).stopsLive, 4},
		{(*visitor).lists, 4},
		{func(v *visitor, _ context.Context) { v.drop() }, 1},
		{func(v *visitor, _ context.Context) { v.leave() }, 1},
	}
}

// act does one of the acts.
func (v *visitor) act(ctx context.Context, list []act) {
	if v.session == nil && !v.connect() {
		return
	}
	sum := 0
	for _, a := range list {
		sum += a.often
	}
	n := v.rand.IntN(sum)
	for _, a := range list {
		if n -= a.often; n < 0 {
			a.do(v, ctx)
			return
		}
	}
}

// says has a command say a word and reports whether that is what came.
func (v *visitor) says(ctx context.Context, box string) bool {
	word := v.word()
	a := v.exec(ctx, box, word, "echo "+word, nil)
	return v.expect(a, map[string]any{"status": sandbox.Exited, "exitCode": 0, "stdout": word + "\n", "stderr": ""})
}

func (v *visitor) fails(ctx context.Context) {
	word := v.word()
	a := v.exec(ctx, "", word, "echo "+word+" >&2; exit 7", nil)
	v.expect(a, map[string]any{"status": sandbox.Exited, "exitCode": 7, "code": "EXEC_FAILED", "stdout": "", "stderr": word + "\n"})
}

// follows starts a command in the background and asks for the rest of it.
func (v *visitor) follows(ctx context.Context) {
	word := v.word()
	a := v.exec(ctx, "", word, "echo "+word+"; sleep 0.3; echo "+word+" again", map[string]any{"background": true})
	if a == nil {
		return
	}
	for range 20 { // logs answers as soon as there is more
		a = v.call(ctx, "logs", map[string]any{"execId": a["execId"], "waitSeconds": 5})
		if a == nil || a.text("status") != string(sandbox.Running) {
			break
		}
	}
	if v.expect(a, map[string]any{"status": sandbox.Exited, "exitCode": 0, "totalLines": 2}) && !strings.HasSuffix(a.text("text"), "2: "+word+" again\n") {
		v.Errorf("%s: what it printed at last is not in %v", v.name, a)
	}
}

var errCancelled = errors.New("the caller has changed its mind")

// cancels begins a command that never ends, and changes its mind.
func (v *visitor) cancels(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	mind := time.AfterFunc(time.Duration(v.rand.IntN(300))*time.Millisecond, func() { cancel(errCancelled) })
	defer mind.Stop()
	word := v.word()
	v.exec(ctx, "", word, "echo "+word+"; exec sleep 1000", nil)
}

// stubborn runs a command into its time limit that ignores what it is asked.
func (v *visitor) stubborn(ctx context.Context) {
	word := v.word()
	a := v.exec(ctx, "", word, "trap '' TERM; echo "+word+"; while :; do sleep 1000; done", map[string]any{"timeoutSeconds": 2})
	v.expect(a, map[string]any{"status": sandbox.TimedOut, "code": "EXEC_TIMEOUT", "stdout": word + "\n"})
}

func (v *visitor) leavesDaemon(ctx context.Context) {
	word := v.word()
	a := v.exec(ctx, "", word, "setsid sleep 1000 & echo "+word, nil)
	if v.expect(a, map[string]any{"status": sandbox.Exited, "exitCode": 0, "stdout": word + "\n"}) && a["leftoverCount"] != 1.0 {
		v.Errorf("%s: its daemon is not told of: %v", v.name, a)
	}
}

// floods has a command print 20 MB between a word and the same again.
func (v *visitor) floods(ctx context.Context) {
	const size = 20_000_000
	word := v.word()
	a := v.exec(ctx, "", word, fmt.Sprintf("echo %s; yes flood | head -c %d; echo; echo %[1]s", word, size), nil)
	if !v.expect(a, map[string]any{"status": sandbox.Exited, "exitCode": 0, "truncated": true}) {
		return
	}
	out := a.text("stdout")
	if !strings.HasPrefix(out, word+"\nflood\n") || !strings.HasSuffix(out, "flood\n\n"+word+"\n") && !strings.HasSuffix(out, "\n"+word+"\n") {
		v.Errorf("%s: of a flood came %q", v.name, out)
	}
}

// bombs fills its box with processes. What else is asked of it then may be refused,
// so it is stopped.
func (v *visitor) bombs(ctx context.Context) {
	start := v.call(ctx, "start", nil)
	if start == nil {
		return
	}
	word := v.word()
	v.exec(ctx, start.text("id"), word, "echo "+word+"; bomb() { bomb | bomb & }; bomb; wait; sleep 1000", map[string]any{"timeoutSeconds": 1})
	v.stop(ctx, start.text("id"))
}

// stopsLive stops a box while a command runs in it.
func (v *visitor) stopsLive(ctx context.Context) {
	start := v.call(ctx, "start", map[string]any{"name": "mine"})
	if start == nil || !v.says(ctx, start.text("id")) {
		return
	}
	word, when := v.word(), time.Duration(v.rand.IntN(200))*time.Millisecond
	twin := *v // for a goroutine of its own
	var live sync.WaitGroup
	live.Go(func() {
		a := twin.exec(ctx, start.text("id"), word, "echo "+word+"; exec sleep 1000", nil)
		if a != nil {
			v.Errorf("%s: its box was stopped, and a command in it says %v", v.name, a)
		}
	})
	<-time.After(when)
	v.stop(ctx, start.text("id"))
	live.Wait()
}

func (v *visitor) stop(ctx context.Context, box string) {
	a := v.call(ctx, "stop", map[string]any{"containerId": box})
	if a != nil {
		v.expect(a, map[string]any{"status": "stopped", "containerId": box})
	}
}

func (v *visitor) lists(ctx context.Context) { v.call(ctx, "list", nil) }
