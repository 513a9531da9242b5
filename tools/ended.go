package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/sandbox"
)

// News are what a reply says besides the result of its call. In the text they are lines of ours
// above the first line of the result, where no output can be.
type news struct {
	Note  string   `json:"note,omitempty"`  // how the arguments were understood
	Room  string   `json:"room,omitempty"`  // what a box has; once a session
	Ended []string `json:"ended,omitempty"` // commands that an earlier reply called running
}

// newsLines renders news for the text.
func (n news) newsLines() string {
	var b strings.Builder
	fact(&b, "note", n.Note)
	fact(&b, "room", n.Room)
	for _, line := range n.Ended {
		fact(&b, "ended", line)
	}
	return b.String()
}

// newsOf returns the news of a result, and a function that returns the result with others; nil
// for what is not a result of a tool, such as a question.
func newsOf(structured any) (n news, with func(news) any) {
	switch r := structured.(type) {
	case ExecResult:
		return r.news, func(n news) any { r.news = n; return r }
	case programsResult:
		return r.news, func(n news) any { r.news = n; return r }
	case logsResult:
		return r.news, func(n news) any { r.news = n; return r }
	case startResult:
		return r.news, func(n news) any { r.news = n; return r }
	case stopResult:
		return r.news, func(n news) any { r.news = n; return r }
	case listResult:
		return r.news, func(n news) any { r.news = n; return r }
	case Failure:
		return r.news, func(n news) any { r.news = n; return r }
	}
	return news{}, nil
}

// informed returns tools whose replies have news, and whose arguments may be wrong where their
// meaning is clear.
func (s *Set) informed(list []mcpserver.ServerTool) []mcpserver.ServerTool {
	for i, t := range list {
		list[i].Handler = func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			res, notes, err := s.understand(ctx, t, req)
			if res == nil || err != nil {
				return res, err
			}
			n, with := newsOf(res.StructuredContent)
			if with == nil {
				return res, nil
			}
			owner := s.owner(ctx)
			s.told.saw(owner, res.StructuredContent)
			n.Note, n.Ended = s.Manager.Mask(strings.Join(notes, "; ")), s.ended(owner, execOf(res.StructuredContent))
			if lines := n.newsLines(); lines != "" {
				addNews(res, with(n), lines)
			}
			s.shape(ctx, res)
			return res, nil
		}
	}
	return list
}

// execOf returns the id of the command that a result is about, "" for other results.
func execOf(result any) string {
	switch r := result.(type) {
	case ExecResult:
		return r.ExecID
	case logsResult:
		return r.execID
	}
	return ""
}

// addNews puts news into both forms of a result.
func addNews(res *mcp.CallToolResult, structured any, lines string) {
	res.StructuredContent = structured
	if text, ok := res.Content[0].(mcp.TextContent); ok {
		text.Text = lines + text.Text
		res.Content[0] = text
	}
}

// understand calls a tool. If it refuses the arguments, and what they mean is clear, it is called
// again with what they mean; notes say what that is. A refused call has done nothing.
func (s *Set) understand(ctx context.Context, t mcpserver.ServerTool, req mcp.CallToolRequest) (res *mcp.CallToolResult, notes []string, err error) {
	res, err = t.Handler(ctx, req)
	if refusedWith(res, sandbox.InvalidArgument) {
		raw, _ := rawArguments(req)
		accepted, what, err := accept(t.Tool, raw)
		if err != nil {
			return Failed(err), nil, nil
		}
		if len(what) > 0 {
			req.Params.Arguments, req.Params.RawArguments, notes = accepted, nil, what
			if res, err = t.Handler(ctx, req); err != nil {
				return res, notes, err
			}
		}
	}
	if refusedWith(res, sandbox.BoxNotFound) {
		raw, _ := rawArguments(req)
		if accepted, what := s.byName(s.owner(ctx), raw); accepted != nil {
			req.Params.Arguments, req.Params.RawArguments, notes = accepted, nil, append(notes, what)
			res, err = t.Handler(ctx, req)
		}
	}
	return res, notes, err
}

// refusedWith reports whether a result is a Failure of that code.
func refusedWith(res *mcp.CallToolResult, code string) bool {
	if res == nil {
		return false
	}
	f, ok := res.StructuredContent.(Failure)
	return ok && f.Code == code
}

// byName returns arguments with the id of a box for its name in containerId, nil unless exactly
// one box of the owner has that name.
func (s *Set) byName(owner sandbox.Owner, raw json.RawMessage) (accepted json.RawMessage, note string) {
	var args map[string]json.RawMessage
	var name, id string
	if json.Unmarshal(raw, &args) != nil || json.Unmarshal(args["containerId"], &name) != nil || name == "" {
		return nil, ""
	}
	for _, b := range s.Manager.Boxes(owner) {
		if b.Name != name || b.Gone() != nil {
			continue
		}
		if id != "" {
			return nil, ""
		}
		id = b.ID
	}
	if id == "" {
		return nil, ""
	}
	args["containerId"], _ = json.Marshal(id)
	accepted, _ = json.Marshal(args)
	return accepted, fmt.Sprintf("used containerId %s for the name %s", id, quote(name))
}

const (
	// maxEnded is how many ended commands one reply names.
	maxEnded = 5

	// maxTold bounds the owners whose sessions are remembered. Beyond it the one that
	// was remembered first is forgotten: it may be told something twice.
	maxTold = 1000

	// maxFollowed and maxHints bound what is remembered of one session.
	maxFollowed = 100
	maxHints    = 1000
)

// Sessions are what each owner was told. The zero value is ready.
type sessions struct {
	mu    sync.Mutex
	of    map[sandbox.Owner]*session
	order []sandbox.Owner // the oldest first
}

// A session is what one owner was told.
type session struct {
	once    map[string]bool // sentences that are told once
	running []followed      // that a reply called running, and none ended
}

// A followed command is one that runs on after the reply to its call.
type followed struct {
	id, box string
	done    <-chan struct{}
}

// session returns the session of an owner. The caller holds m.mu.
func (m *sessions) session(owner sandbox.Owner) *session {
	if t := m.of[owner]; t != nil {
		return t
	}
	if m.of == nil {
		m.of = map[sandbox.Owner]*session{}
	}
	if len(m.order) >= maxTold {
		delete(m.of, m.order[0])
		m.order = slices.Delete(m.order, 0, 1)
	}
	m.of[owner], m.order = &session{once: map[string]bool{}}, append(m.order, owner)
	return m.of[owner]
}

// once reports whether an owner was not told of something before, and remembers it.
func (m *sessions) once(owner sandbox.Owner, what string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.session(owner)
	if t.once[what] || len(t.once) >= maxHints {
		return false
	}
	t.once[what] = true
	return true
}

// follow remembers a command that a reply calls running.
func (m *sessions) follow(owner sandbox.Owner, run *sandbox.Run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.session(owner)
	if len(t.running) >= maxFollowed {
		t.running = slices.Delete(t.running, 0, 1)
	}
	t.running = append(t.running, followed{run.ID, run.Box.ID, run.Done()})
}

// saw forgets the commands whose end a result says, or that end with the box which its call
// stopped.
func (m *sessions) saw(owner sandbox.Owner, result any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.of[owner]
	if t == nil || len(t.running) == 0 {
		return
	}
	seen := func(followed) bool { return false }
	exec := func(id string, status sandbox.Status) func(followed) bool {
		return func(f followed) bool { return f.id == id && status != sandbox.Running }
	}
	switch r := result.(type) {
	case ExecResult:
		seen = exec(r.ExecID, r.Status)
	case logsResult:
		seen = exec(r.execID, r.Status)
	case stopResult:
		if seen = exec(r.ExecID, sandbox.Status(r.Status)); r.ExecID == "" {
			seen = func(f followed) bool { return f.box == r.ContainerID }
		}
	case listResult:
		seen = func(f followed) bool {
			return slices.ContainsFunc(r.Commands, func(c listedRun) bool { return exec(c.ExecID, c.Status)(f) })
		}
	}
	t.running = slices.DeleteFunc(t.running, seen)
}

// claimEnded returns the followed commands that have ended, once, without the one that the reply
// is about: it would say two things of it.
func (m *sessions) claimEnded(owner sandbox.Owner, but string, record func(id string) (sandbox.Record, error)) (list []sandbox.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.of[owner]
	if t == nil {
		return nil
	}
	t.running = slices.DeleteFunc(t.running, func(f followed) bool {
		if f.id == but {
			return false
		}
		select {
		case <-f.done:
		default:
			return false
		}
		r, err := record(f.id)
		if err == nil && r.Exit.Status == sandbox.Running {
			return false // the server lost its box, and may reattach to it
		}
		if err == nil {
			list = append(list, r)
		}
		return true
	})
	return list
}

// ended describes the commands of an owner that have ended since a reply called them running, but
// not the one that the reply is about. A
// command is described once, and not if the owner has seen its end.
func (s *Set) ended(owner sandbox.Owner, but string) (lines []string) {
	list := s.told.claimEnded(owner, but, func(id string) (sandbox.Record, error) { return s.Manager.Record(owner, id) })
	for _, r := range list[:min(len(list), maxEnded)] {
		lines = append(lines, fmt.Sprintf("%s %s · %s", r.ID, ending(r.Exit.Status, exitCode(r.Exit), r.Exit.Signal), oneLine(r.Cmd, 60)))
	}
	if more := len(list) - maxEnded; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}
