package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// A pipe is the way of mcp-go's client to a server on stdio. In place of the
// library's own, which hands each answer from a goroutine that reads to the one that
// waits, those who wait take turns at reading: a fifth of what a short command took
// was the client's, and is no part of what is measured.
type pipe struct {
	in  io.WriteCloser
	out *bufio.Reader

	turn chan struct{} // is empty while somebody reads

	mu      sync.Mutex // also held for one line's write
	waiting map[string]chan *transport.JSONRPCResponse
}

func newPipe(in io.WriteCloser, out io.Reader) *pipe {
	p := &pipe{in: in, out: bufio.NewReader(out), turn: make(chan struct{}, 1), waiting: map[string]chan *transport.JSONRPCResponse{}}
	p.turn <- struct{}{}
	return p
}

func (p *pipe) Start(context.Context) error                          { return nil }
func (p *pipe) Close() error                                         { return p.in.Close() }
func (p *pipe) GetSessionId() string                                 { return "" }
func (p *pipe) SetNotificationHandler(func(mcp.JSONRPCNotification)) {} // nobody wants to know

func (p *pipe) SendNotification(_ context.Context, n mcp.JSONRPCNotification) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.write(n)
}

// SendRequest returns the answer. Where it reads, the context does not end it but the
// server's end does.
func (p *pipe) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	answer, err := p.send(r)
	for err == nil {
		select {
		case a := <-answer:
			return a, nil
		case <-p.turn:
			err = p.read(answer)
			p.turn <- struct{}{}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return nil, err
}

func (p *pipe) send(r transport.JSONRPCRequest) (<-chan *transport.JSONRPCResponse, error) {
	answer := make(chan *transport.JSONRPCResponse, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[r.ID.String()] = answer
	return answer, p.write(r)
}

// write writes one line. The caller holds p.mu.
func (p *pipe) write(message any) error {
	line, err := json.Marshal(message)
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	return err
}

// read gives the next line to whom it answers, unless one's own answer has come.
func (p *pipe) read(mine <-chan *transport.JSONRPCResponse) error {
	if len(mine) > 0 {
		return nil
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	var a transport.JSONRPCResponse
	if err := json.Unmarshal(line, &a); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if to, ok := p.waiting[a.ID.String()]; ok { // else it is a notification
		delete(p.waiting, a.ID.String())
		to <- &a
	}
	return nil
}
