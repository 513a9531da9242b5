package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// endTime bounds the shutdown of a server, after which it is killed.
const endTime = 15 * time.Second

// A session is a server on stdio and its one client, which calls one tool after the other.
type session struct {
	form    Form
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	dir     string // the server's state, removed with it
	bashEnv string // the file that plays recordings
	want    bool   // exec is told what the step wants
	id      int
}

// open starts a server. Where exec has the argument want, want says whether calls use it.
func open(program string, form Form, want bool) (s *session, err error) {
	s = &session{form: form}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "replay-of-warmbox-*"); err != nil {
		return s, err
	}
	player, err := os.Executable()
	if err != nil {
		return s, err
	}
	s.bashEnv = filepath.Join(s.dir, "play")
	if err := os.WriteFile(s.bashEnv, fmt.Appendf(nil, stage, player), 0o600); err != nil {
		return s, err
	}
	s.cmd = exec.Command(program, "stdio", "--backend=process", "--exec-whitelist=*", "--pool-warm=0", "--config=/dev/null", "--log-level=error")
	s.cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+s.dir)
	s.cmd.Stderr = os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return s, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return s, err
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		return s, err
	}
	_, err = s.request("initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": struct{}{},
		"clientInfo": map[string]string{"name": "replay", "version": "1"},
	})
	if err == nil {
		err = s.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	}
	if err == nil && want {
		s.want, err = s.has("exec", "want")
	}
	return s, err
}

// has reports whether a tool has an argument.
func (s *session) has(tool, argument string) (bool, error) {
	result, err := s.request("tools/list", struct{}{})
	if err != nil {
		return false, err
	}
	var list struct {
		Tools []struct {
			Name        string
			InputSchema struct{ Properties map[string]any }
		}
	}
	err = json.Unmarshal(result, &list)
	for _, t := range list.Tools {
		if _, ok := t.InputSchema.Properties[argument]; ok && t.Name == tool {
			return true, err
		}
	}
	return false, err
}

// call calls a tool.
func (s *session) call(tool string, args Args) (Reply, error) {
	result, err := s.request("tools/call", map[string]any{"name": tool, "arguments": args})
	if err != nil {
		return Reply{}, fmt.Errorf("%s: %w", tool, err)
	}
	return newReply(result, s.form)
}

// request returns the result of the one request in flight.
func (s *session) request(method string, params any) (json.RawMessage, error) {
	s.id++
	if err := s.send(map[string]any{"jsonrpc": "2.0", "id": s.id, "method": method, "params": params}); err != nil {
		return nil, err
	}
	for {
		line, err := s.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var m struct {
			ID     int
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, err
		}
		switch {
		case m.ID != s.id: // a notification
		case m.Error != nil:
			return nil, fmt.Errorf("%.1000s", m.Error)
		default:
			return m.Result, nil
		}
	}
}

func (s *session) send(message any) error {
	line, err := json.Marshal(message)
	if err == nil {
		_, err = s.in.Write(append(line, '\n'))
	}
	return err
}

// close ends the server with all that it started.
func (s *session) close() error {
	var err error
	if s.cmd != nil && s.cmd.Process != nil {
		s.in.Close()
		late := time.AfterFunc(endTime, func() { s.cmd.Process.Kill() })
		err = s.cmd.Wait()
		late.Stop()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// A Form is the part of a result that a host shows its model.
type Form string

const (
	Text       Form = "text"       // the blocks of text
	Structured Form = "structured" // structuredContent, as JSON
)

// A Reply is a result in one form.
type Reply struct {
	Bytes int    // that the model reads
	Shown string // in JSON, each string as a line "name: text", without escapes

	// The state of the run, which both forms have.
	execID    string
	running   bool
	truncated bool
	next      int  // line to go on with; 0 if the reply names none
	lines     bool // it has lines of the log
	cut       bool // lines before its own are not in it
}

func newReply(result json.RawMessage, form Form) (Reply, error) {
	var parts struct {
		Content           []struct{ Type, Text string }
		StructuredContent map[string]any
	}
	if err := json.Unmarshal(result, &parts); err != nil {
		return Reply{}, err
	}
	var state struct {
		StructuredContent struct {
			Status, ExecID string
			Truncated      bool
			Next           int
			FirstLine      int // of replies that name it; others number the lines of the text
			Text           string
		}
	}
	if err := json.Unmarshal(result, &state); err != nil {
		return Reply{}, err
	}
	c := state.StructuredContent
	r := Reply{
		execID: c.ExecID, running: c.Status == "running", truncated: c.Truncated,
		next: c.Next, lines: c.Text != "", cut: max(c.FirstLine, firstNumber(c.Text)) > 1,
	}
	if form == Structured {
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false) // the host writes it anew
		if err := e.Encode(parts.StructuredContent); err != nil {
			return Reply{}, err
		}
		r.Bytes = text.Len() - len("\n")
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(parts.StructuredContent)) {
			fmt.Fprintf(&b, "%s: %v\n", name, parts.StructuredContent[name])
		}
		r.Shown = b.String()
		return r, nil
	}
	for _, p := range parts.Content {
		if p.Type == "text" {
			r.Bytes += len(p.Text)
			r.Shown += p.Text
		}
	}
	return r, nil
}

// firstNumber returns the number of a text's first line, which stands before it; 0 if none does.
func firstNumber(text string) (n int) {
	fmt.Sscanf(text, "%d", &n)
	return n
}
