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

// A pipe is a transport of mcp-go's client for a server on stdio. The library's own
// passes each reply from a reader goroutine to the waiting one, which was a fifth of
// the time of a short command. Here the waiting goroutines take turns at reading, so
// that less of the client is measured.
type pipe struct {
	in  io.WriteCloser
	out *bufio.Reader

	turn chan struct{} // empty while a goroutine reads

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
func (p *pipe) SetNotificationHandler(func(mcp.JSONRPCNotification)) {} // ignored

func (p *pipe) SendNotification(_ context.Context, n mcp.JSONRPCNotification) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.write(n)
}

// SendRequest returns the reply. While it reads, the end of the server ends it, but not
// the context.
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

// read passes the next reply to the goroutine that waits for it, unless the caller's own
// has arrived.
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
	if to, ok := p.waiting[a.ID.String()]; ok { // else a notification
		delete(p.waiting, a.ID.String())
		to <- &a
	}
	return nil
}
