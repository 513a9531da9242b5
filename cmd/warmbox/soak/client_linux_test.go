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

// A client does what models do, and checks every answer: it must be right or a promised
// error, and never contain a token that another client's command printed.
type client struct {
	*service
	tally   *tally
	rand    *rand.Rand
	name    string // unique, and as long as those of others
	token   string
	version string // of the protocol, "" for the latest

	session *mcp.ClientSession
	http    *withToken
	turn    int64 // of the service, when the session began
	words   int   // printed so far
}

// replyTime is how long any answer may take. Most take milliseconds. Some wait for boxes
// that an engine starts all at once after its restart. exec itself waits for 45 s.
const replyTime = 90 * time.Second

// tally counts results of calls by tool and code, or faults by name.
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

// newClient makes the client of a number, which chooses its acts by a seed.
func newClient(s *service, t *tally, seed uint64, number int) *client {
	v := &client{service: s, tally: t, rand: rand.New(rand.NewPCG(seed, uint64(number))), name: fmt.Sprintf("v%03d", number),
		token: s.tokens[number%len(s.tokens)]}
	if number/len(s.tokens)%2 == 0 {
		v.version = "2025-06-18" // the last one but one, with sessions
	}
	return v
}

// connect starts a session as soon as a server serves.
func (v *client) connect() bool {
	ctx, cancel := context.WithTimeout(v.Context(), 2*waitLimit)
	defer cancel()
	v.http = &withToken{Transport: &http.Transport{}, token: v.token}
	transport := &mcp.StreamableClientTransport{
		Endpoint: v.url + "/mcp", HTTPClient: &http.Client{Transport: v.http}, MaxRetries: -1, DisableStandaloneSSE: true,
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

func (v *client) sameServer() bool { return v.turn == v.service.turn.Load() }

// drop ends a session without a request to the server, as if the network failed.
func (v *client) drop() {
	v.http.cut.Store(true)
	v.leave()
}

// leave ends a session in order.
func (v *client) leave() {
	if v.session != nil {
		v.session.Close()
		v.session = nil
	}
	v.http.CloseIdleConnections()
}

// word returns a token that no other client and no other call prints.
func (v *client) word() string {
	v.words++
	return fmt.Sprintf("%s-%05d", v.name, v.words)
}

var wordLike = regexp.MustCompile(`\bv\d{3}-\d{5}\b`)

// answer is the structured content of a result that was right.
type answer map[string]any

func (a answer) text(name string) string {
	s, _ := a[name].(string)
	return s
}

// call calls a tool. It returns nil if the result is a promised error.
func (v *client) call(ctx context.Context, tool string, args map[string]any) answer {
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

// promised are the codes of errors that the faults may cause.
var promised = []string{sandbox.BoxGone, sandbox.BoxNotFound, sandbox.DockerUnavailable, sandbox.LimitReached, sandbox.ExecNotFound}

// judge checks a result, and returns nil if it is a promised error.
func (v *client) judge(tool string, args map[string]any, r *mcp.CallToolResult) answer {
	text, err := json.Marshal(r)
	if err != nil {
		v.Error(err)
	}
	for _, word := range wordLike.FindAllString(string(text), -1) {
		if !strings.HasPrefix(word, v.name) {
			v.Errorf("%s called %s %v and got the token of another client, %s: %.2000s", v.name, tool, args, word, text)
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

// exec runs a command, in the client's own box if box is "". The command must print no
// token but the one given.
func (v *client) exec(ctx context.Context, box, word, cmd string, more map[string]any) answer {
	args := map[string]any{"cmd": cmd}
	maps.Copy(args, more)
	if box != "" {
		args["containerId"] = box
	}
	a := v.call(ctx, "exec", args)
	for _, stream := range []string{"stdout", "stderr"} {
		for _, seen := range wordLike.FindAllString(a.text(stream), -1) {
			if seen != word {
				v.Errorf("%s ran %q and got the token %s in %v", v.name, cmd, seen, a)
			}
		}
	}
	return a
}

// expect checks fields of an answer.
func (v *client) expect(a answer, want map[string]any) bool {
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
