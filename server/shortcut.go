package server

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// A shortcut takes calls of tools past mcp-go's codec for stdio, which hands each
// line from one goroutine to the next three times, and parses it six times, before
// a tool hears of it: as long as a command takes that is short. What the call means
// is mcp-go's to say all the same, and whatever is not plainly a call goes its way.
type shortcut struct {
	server *mcpserver.MCPServer
	out    io.Writer
	logger *slog.Logger
	ctx    context.Context // of the session, as mcp-go's own calls have it; nil before there is one

	mu      sync.Mutex
	over    bool // nothing more is taken
	under   int  // calls under way
	running sync.WaitGroup
}

// take serves a line that is a call, and reports whether it is. The line is then
// not the caller's any more.
func (s *shortcut) take(line []byte) bool {
	var head struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if s.ctx == nil || json.Unmarshal(line, &head) != nil || head.Method != string(mcp.MethodToolsCall) ||
		head.ID == nil || string(head.ID) == "null" || head.Result != nil || head.Error != nil || !s.enter() {
		return false
	}
	go s.serve(line)
	runtime.Gosched() // to that: who reads the next line can be another thread
	return true
}

// enter takes one of the places. Calls above them wait in mcp-go's queue.
func (s *shortcut) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.under >= workers {
		return false
	}
	s.under++
	s.running.Add(1)
	return true
}

func (s *shortcut) leave() {
	s.mu.Lock()
	s.under--
	s.mu.Unlock()
	s.running.Done()
}

// close returns when the calls under way have been answered.
func (s *shortcut) close() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.running.Wait()
}

func (s *shortcut) serve(line []byte) {
	defer s.leave()
	defer func() {
		// Tools that panic answer: this is what comes between, and costs its call only.
		if p := recover(); p != nil {
			s.logger.Error("a call broke down", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	answer := s.server.HandleMessage(s.ctx, line)
	if answer == nil { // it was cancelled, and nobody waits
		return
	}
	text, err := json.Marshal(answer)
	if err != nil {
		s.logger.Error("an answer cannot be written", "err", err)
		return
	}
	s.out.Write(append(text, '\n')) // where that fails the session ends
}
