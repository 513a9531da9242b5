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

// An act is something that a client does.
type act struct {
	do    func(*client, context.Context)
	often int // relative to other acts
}

func acts() []act {
	return []act{
		{func(v *client, ctx context.Context) { v.says(ctx, "") }, 20},
		{(*client).fails, 5},
		{(*client).follows, 4},
		{(*client).cancels, 4},
		{(*client).stubborn, 2},
		{(*client).leavesDaemon, 3},
		{(*client).floods, 1},
		{(*client).bombs, 1},
		{(*client).stopsLive, 4},
		{(*client).lists, 4},
		{func(v *client, _ context.Context) { v.drop() }, 1},
		{func(v *client, _ context.Context) { v.leave() }, 1},
	}
}

// act does one of the acts, chosen at random.
func (v *client) act(ctx context.Context, list []act) {
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

// says runs a command that prints a token, and reports whether the result has it.
func (v *client) says(ctx context.Context, box string) bool {
	word := v.word()
	a := v.exec(ctx, box, word, "echo "+word, nil)
	return v.expect(a, map[string]any{"status": sandbox.Exited, "exitCode": 0, "stdout": word + "\n", "stderr": nil})
}

func (v *client) fails(ctx context.Context) {
	word := v.word()
	a := v.exec(ctx, "", word, "echo "+word+" >&2; exit 7", nil)
	v.expect(a, map[string]any{"status": sandbox.Exited, "exitCode": 7, "stdout": nil, "stderr": word + "\n"})
}

// follows starts a command in the background and reads its log until it ends.
func (v *client) follows(ctx context.Context) {
	word := v.word()
	a := v.exec(ctx, "", word, "echo "+word+"; sleep 0.3; echo "+word+" again", map[string]any{"background": true})
	if a == nil {
		return
	}
	id := a["execId"]
	for range 20 { // logs returns when no more output comes
		a = v.call(ctx, "logs", map[string]any{"execId": id, "waitSeconds": 5})
		if a == nil || a.text("status") != string(sandbox.Running) {
			break
		}
	}
	if v.expect(a, map[string]any{"status": sandbox.Exited, "exitCode": 0, "totalLines": 2}) && !strings.HasSuffix(a.text("text"), "2: "+word+" again\n") {
		v.Errorf("%s: the last line of the output is not in %v", v.name, a)
	}
}

var errCancelled = errors.New("the caller cancels")

// cancels starts a command that never ends, and cancels the call.
func (v *client) cancels(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(time.Duration(v.rand.IntN(300))*time.Millisecond, func() { cancel(errCancelled) })
	defer timer.Stop()
	word := v.word()
	v.exec(ctx, "", word, "echo "+word+"; exec sleep 1000", nil)
}

// stubborn runs a command that ignores SIGTERM into its time limit.
func (v *client) stubborn(ctx context.Context) {
	word := v.word()
	a := v.exec(ctx, "", word, "trap '' TERM; echo "+word+"; while :; do sleep 1000; done", map[string]any{"timeoutSeconds": 2})
	v.expect(a, map[string]any{"status": sandbox.TimedOut, "code": "EXEC_TIMEOUT", "stdout": word + "\n"})
}

func (v *client) leavesDaemon(ctx context.Context) {
	word := v.word()
	a := v.exec(ctx, "", word, "setsid sleep 1000 & echo "+word, nil)
	left, _ := a["leftover"].([]any)
	if v.expect(a, map[string]any{"status": sandbox.Exited, "exitCode": 0, "stdout": word + "\n"}) && len(left) != 1 {
		v.Errorf("%s: the result does not name the daemon: %v", v.name, a)
	}
}

// floods runs a command that prints 20 MB between a token and the same token.
func (v *client) floods(ctx context.Context) {
	const size = 20_000_000
	word := v.word()
	a := v.exec(ctx, "", word, fmt.Sprintf("echo %s; yes flood | head -c %d; echo; echo %[1]s", word, size), nil)
	if !v.expect(a, map[string]any{"status": sandbox.Exited, "exitCode": 0, "truncated": true}) {
		return
	}
	out := a.text("stdout")
	if !strings.HasPrefix(out, word+"\nflood\n") || !strings.HasSuffix(out, "flood\n\n"+word+"\n") && !strings.HasSuffix(out, "\n"+word+"\n") {
		v.Errorf("%s: the excerpt of 20 MB is %q", v.name, out)
	}
}

// bombs fills a box with processes. The box may then refuse commands, so it is stopped.
func (v *client) bombs(ctx context.Context) {
	start := v.call(ctx, "start", nil)
	if start == nil {
		return
	}
	word := v.word()
	v.exec(ctx, start.text("id"), word, "echo "+word+"; bomb() { bomb | bomb & }; bomb; wait; sleep 1000", map[string]any{"timeoutSeconds": 1})
	v.stop(ctx, start.text("id"))
}

// stopsLive stops a box while a command runs in it.
func (v *client) stopsLive(ctx context.Context) {
	start := v.call(ctx, "start", map[string]any{"name": "mine"})
	if start == nil || !v.says(ctx, start.text("id")) {
		return
	}
	word, when := v.word(), time.Duration(v.rand.IntN(200))*time.Millisecond
	twin := *v // for another goroutine
	var live sync.WaitGroup
	live.Go(func() {
		a := twin.exec(ctx, start.text("id"), word, "echo "+word+"; exec sleep 1000", nil)
		if a != nil {
			v.Errorf("%s: a command in a stopped box has the result %v", v.name, a)
		}
	})
	<-time.After(when)
	v.stop(ctx, start.text("id"))
	live.Wait()
}

func (v *client) stop(ctx context.Context, box string) {
	a := v.call(ctx, "stop", map[string]any{"containerId": box})
	if a != nil {
		v.expect(a, map[string]any{"status": "stopped", "containerId": box})
	}
}

func (v *client) lists(ctx context.Context) { v.call(ctx, "list", nil) }
