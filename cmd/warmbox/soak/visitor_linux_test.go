package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warmbox/warmbox/sandbox"
)

// A visitor is a client that does what models do, and looks at every answer: it
// must be right, or one of those that are promised where something is wrong, and
// never have a word that somebody else's command printed.
type visitor struct {
	*service
	tally   *tally
	rand    *rand.Rand
	name    string // unlike those of all others, and as long
	token   string
	version string // of the protocol, "" for the latest

	session *mcp.ClientSession
	line    *withToken
	turn    int64 // of the service, when the session began
	words   int
}

// replyTime is how long any answer may take. Most take milliseconds; some wait for
// boxes that an engine starts which has just come back, with all others, on a machine
// that has more to do. exec itself waits for 45 s.
const replyTime = 90 * time.Second

// tally counts what calls came to, by what was asked.
type tally struct {
	mu    sync.Mutex
	count map[string]int
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == nil {
		t.count = map[string]int{}
	}
	t.count[what]++
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for _, what := range slices.Sorted(maps.Keys(t.count)) {
		list = append(list, fmt.Sprintf("%s %d", what, t.count[what]))
	}
	return strings.Join(list, ", ")
}

// newVisitor makes the one of a number, who chooses by a seed.
func newVisitor(s *service, t *tally, seed uint64, number int) *visitor {
	v := &visitor{service: s, tally: t, rand: rand.New(rand.NewPCG(seed, uint64(number))), name: fmt.Sprintf("v%03d", number),
		token: s.tokens[number%len(s.tokens)]}
	if number/len(s.tokens)%2 == 0 {
		v.version = "2025-06-18" // the last one but one, with sessions
	}
	return v
}

// connect begins a session, as soon as there is a server.
func (v *visitor) connect() bool {
	ctx, cancel := context.WithTimeout(v.Context(), 2*patience)
	defer cancel()
	v.line = &withToken{Transport: &http.Transport{}, token: v.token}
	transport := &mcp.StreamableClientTransport{
		Endpoint: v.url + "/mcp", HTTPClient: &http.Client{Transport: v.line}, MaxRetries: -1, DisableStandaloneSSE: true,
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		v.turn = v.service.turn.Load()
		if v.turn%2 == 0 {
			var err error
			client := mcp.NewClient(&mcp.Implementation{Name: v.name, Version: "1"}, nil)
			v.session, err = client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: v.version})
			if err == nil {
				return true
			}
			if v.sameServer() {
				v.Errorf("%s cannot connect: %v", v.name, err)
				return false
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

func (v *visitor) sameServer() bool { return v.turn == v.service.turn.Load() }

// drop ends a session without a word to the server, as a client does whose machine
// loses its network.
func (v *visitor) drop() {
	v.line.cut.Store(true)
	v.leave()
}

// leave ends a session as clients should.
func (v *visitor) leave() {
	if v.session != nil {
		v.session.Close()
		v.session = nil
	}
	v.line.CloseIdleConnections()
}

// word returns one that nobody else has, and no other call.
func (v *visitor) word() string {
	v.words++
	return fmt.Sprintf("%s-%05d", v.name, v.words)
}

var wordLike = regexp.MustCompile(`\bv\d{3}-\d{5}\b`)

// answer is what a call came to that was answered as it should be.
type answer map[string]any

func (a answer) text(name string) string {
	s, _ := a[name].(string)
	return s
}

// call calls a tool. It returns nil where something was wrong of which the visitor
// was told as is promised.
func (v *visitor) call(ctx context.Context, tool string, args map[string]any) answer {
	if v.session == nil && !v.connect() {
		return nil
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	r, err := v.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	switch took := time.Since(begin); {
	case took >= replyTime:
		v.Errorf("%s had no answer to %s %v within %v (%v)", v.name, tool, args, took, err)
	case context.Cause(ctx) == errCancelled:
		v.tally.add("cancelled")
		return nil
	case err == nil:
		return v.judge(tool, args, r)
	case v.sameServer():
		v.Errorf("%s: %s %v: %v", v.name, tool, args, err)
	}
	v.tally.add("no server")
	v.drop()
	return nil
}

// promised are the codes of what may be wrong here.
var promised = []string{sandbox.BoxGone, sandbox.BoxNotFound, sandbox.DockerUnavailable, sandbox.LimitReached, sandbox.ExecNotFound}

// judge looks at an answer that came.
func (v *visitor) judge(tool string, args map[string]any, r *mcp.CallToolResult) answer {
	text, err := json.Marshal(r)
	if err != nil {
		v.Error(err)
	}
	for _, word := range wordLike.FindAllString(string(text), -1) {
		if !strings.HasPrefix(word, v.name) {
			v.Errorf("%s asked for %s %v and was told somebody else's word %s: %.2000s", v.name, tool, args, word, text)
		}
	}
	a, _ := r.StructuredContent.(map[string]any)
	code, status := answer(a).text("code"), answer(a).text("status")
	switch {
	case r.IsError && !slices.Contains(promised, code):
		v.Errorf("%s: %s %v: %.2000s", v.name, tool, args, text)
	case r.IsError:
	case status == string(sandbox.Lost) && !strings.Contains(answer(a).text("hint"), "ended while the command ran"):
		v.Errorf("%s: %s %v is lost without a reason: %.2000s", v.name, tool, args, text)
	case status == string(sandbox.Lost), status == string(sandbox.Killed):
		code = status
	default:
		v.tally.add(tool)
		return a
	}
	v.tally.add(tool + " " + code)
	return nil
}

// exec runs a command, in the visitor's own box where box is "". The command must
// print no word but the one given.
func (v *visitor) exec(ctx context.Context, box, word, cmd string, more map[string]any) answer {
	args := map[string]any{"cmd": cmd}
	maps.Copy(args, more)
	if box != "" {
		args["containerId"] = box
	}
	a := v.call(ctx, "exec", args)
	for _, stream := range []string{"stdout", "stderr"} {
		for _, seen := range wordLike.FindAllString(a.text(stream), -1) {
			if seen != word {
				v.Errorf("%s asked for %q and was told %s in %v", v.name, cmd, seen, a)
			}
		}
	}
	return a
}

// expect sees that an answer is what it must be.
func (v *visitor) expect(a answer, want map[string]any) bool {
	if a == nil {
		return false
	}
	for name, value := range want {
		if fmt.Sprint(a[name]) != fmt.Sprint(value) {
			v.Errorf("%s wants %s to be %v in %.2000s", v.name, name, value, fmt.Sprint(a))
			return false
		}
	}
	return true
}
