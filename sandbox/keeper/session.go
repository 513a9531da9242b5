package keeper

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A session is the connection of one client, and what it runs.
type session struct {
	keeper *Keeper
	conn   net.Conn
	ctx    context.Context // ends with the session
	cancel context.CancelFunc

	wmu sync.Mutex // held for the write of a frame

	mu   sync.Mutex
	runs map[wire.ID]*program

	running sync.WaitGroup
	left    sync.Once
}

func newSession(k *Keeper, conn net.Conn) *session {
	ctx, cancel := context.WithCancel(context.Background())
	return &session{keeper: k, conn: conn, ctx: ctx, cancel: cancel, runs: map[wire.ID]*program{}}
}

// serve reads frames until the connection ends. Its error is io.EOF if the client ended it.
func (s *session) serve() error {
	r := wire.NewReader(s.conn, wire.FromHost)
	f, err := r.Read()
	if err == nil && f.Kind != wire.Hello {
		err = wire.Violation("%v before Hello", f.Kind)
	}
	var hello wire.HelloBody
	if err == nil {
		err = wire.Decode(f, &hello)
	}
	if err == nil && (hello.PersistMillis > 0 || hello.Resume) {
		err = wire.Violation("%v of a host that wants to attach for good", f.Kind)
	}
	box := s.keeper.Box
	if err == nil {
		err = s.sendJSON(wire.Hello, wire.ID{}, wire.HelloBody{Agent: "warmbox keeper", Pid: box.Pid, Shell: box.Shell, Found: box.Has})
	}
	for err == nil {
		if f, err = r.Read(); err == nil {
			err = s.carryOut(f)
		}
	}
	return err
}

// leave ends the connection, and tells the client first if the box is gone: because of lost,
// or as the box itself says.
func (s *session) leave(lost error) {
	s.left.Do(func() {
		defer s.conn.Close()
		select {
		case <-s.keeper.Box.Done():
		default:
			if lost == nil {
				return // the keeper ends, and the box goes on
			}
		}
		if lost == nil {
			lost = sandbox.Errorf(sandbox.BoxGone, "Run it again in another box.", "box %s ended: %w", s.keeper.Box.ID, s.keeper.Box.Gone())
		}
		s.conn.SetWriteDeadline(time.Now().Add(leaveTimeout)) // also of a write under way
		s.refuse(wire.ID([]byte(sandbox.KeptGone)), lost)
	})
}

// end ends all that the client started.
func (s *session) end() {
	s.cancel()
	for _, p := range s.all() {
		p.abandon()
	}
	s.running.Wait()
}

func (s *session) all() (list []*program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.runs {
		list = append(list, p)
	}
	return list
}

func (s *session) run(id wire.ID) *program {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[id]
}

func (s *session) carryOut(f wire.Frame) error {
	switch f.Kind {
	case wire.Start:
		return s.start(f)
	case wire.Ping:
		return s.send(wire.Append(nil, wire.Pong, f.Run, f.Payload))
	case wire.Stdin, wire.StdinClose, wire.Kill, wire.Signal, wire.OutputTaken:
		if p := s.run(f.Run); p != nil {
			return p.carryOut(f)
		}
		return nil // it has just ended
	}
	return wire.Violation("%v to a keeper", f.Kind)
}

// start carries out a Start.
func (s *session) start(f wire.Frame) error {
	var body wire.StartBody
	if err := wire.Decode(f, &body); err != nil {
		return err
	}
	if err := body.Check(); err != nil {
		return err
	}
	if body.Window == 0 || s.run(f.Run) != nil {
		return wire.Violation("%v without a window, or with the id of a known run", f.Kind)
	}
	p := newProgram(s, f.Run, body)
	c := sandbox.Command{Cmd: body.Cmd, Dir: body.Dir, Env: variables(body.Env), Stdout: p.out[0], Stderr: p.out[1]}
	if body.Stdin {
		c.Stdin = p.in
	}
	run, err := s.keeper.Box.Exec(s.ctx, c)
	if err != nil {
		return s.refuse(f.Run, err)
	}
	p.run = run
	s.mu.Lock()
	s.runs[f.Run] = p
	s.mu.Unlock()
	s.running.Go(p.follow)
	return nil
}

// refuse tells the client why its command did not start.
func (s *session) refuse(id wire.ID, err error) error {
	body := wire.RefusedBody{Step: wire.StepTold, Code: sandbox.Internal, Text: err.Error()}
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		body.Code, body.Hint = e.Code, e.Hint
	}
	return s.sendJSON(wire.Refused, id, body)
}

func (s *session) send(frame []byte) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	_, err := s.conn.Write(frame)
	return err
}

func (s *session) sendJSON(kind wire.Kind, run wire.ID, body any) error {
	frame, err := wire.AppendJSON(nil, kind, run, body)
	if err != nil {
		return err
	}
	return s.send(frame)
}

// variables are those of a Start as a Command has them.
func variables(env []string) map[string]string {
	list := map[string]string{}
	for _, v := range env {
		if name, value, ok := strings.Cut(v, "="); ok {
			list[name] = value
		}
	}
	return list
}

// A program is a run of a client.
type program struct {
	session *session
	id      wire.ID
	run     *sandbox.Run
	begun   sync.Once // Started is sent
	in      *input
	out     [2]*output
}

func newProgram(s *session, id wire.ID, body wire.StartBody) *program {
	p := &program{session: s, id: id}
	p.in = &input{window: body.Window, consumed: p.confirm}
	p.in.work.L = &p.in.mu
	for i, kind := range []wire.Kind{wire.Stdout, wire.Stderr} {
		o := &output{size: body.Window, credit: body.Window}
		o.send = func(b []byte) error { return p.send(wire.Append(nil, kind, id, b)) }
		o.room.L = &o.mu
		p.out[i] = o
	}
	return p
}

// send sends a frame of the run. The first one is preceded by Started: only then it is known
// that the box did not refuse the command.
func (p *program) send(frame []byte) error {
	p.begun.Do(func() { p.session.sendJSON(wire.Started, p.id, wire.StartedBody{}) })
	return p.session.send(frame)
}

func (p *program) confirm(n int) {
	p.send(wire.Append(nil, wire.StdinTaken, p.id, binary.BigEndian.AppendUint32(nil, uint32(n))))
}

func (p *program) carryOut(f wire.Frame) error {
	switch f.Kind {
	case wire.Stdin:
		return p.in.accept(f.Payload)
	case wire.StdinClose:
		p.in.end()
	case wire.OutputTaken:
		return p.taken(f)
	case wire.Signal:
		var body wire.SignalBody
		if err := wire.Decode(f, &body); err != nil {
			return err
		}
		if !wire.Sendable(body.Signal) {
			return wire.Violation("%v %d", f.Kind, body.Signal)
		}
		p.run.Signal(sandbox.SignalName(body.Signal))
	case wire.Kill:
		var body wire.KillBody
		if err := wire.Decode(f, &body); err != nil {
			return err
		}
		if body.GraceMillis > 0 {
			p.run.Kill()
		} else {
			p.run.Signal("KILL")
		}
		p.release()
	}
	return nil
}

func (p *program) taken(f wire.Frame) error {
	taken, err := wire.Taken(f)
	if err != nil {
		return err
	}
	for i, n := range taken {
		if n == wire.NoMore {
			p.out[i].refuse()
		} else if err := p.out[i].open(int(n)); err != nil {
			return err
		}
	}
	return nil
}

// follow reports the end of the run, after all that it printed before.
func (p *program) follow() {
	s := p.session
	<-p.run.Done()
	p.in.end()
	p.run.Delivered(s.ctx)
	exit := p.run.Exit()
	switch {
	case exit.Status == sandbox.Exited && exit.Err != nil:
		s.refuse(p.id, exit.Err)
	case exit.Status == sandbox.Lost:
		s.leave(exit.Err)
	default:
		p.reportExit(exit)
	}
	<-p.run.Over()
	s.mu.Lock()
	delete(s.runs, p.id)
	s.mu.Unlock()
}

func (p *program) reportExit(e sandbox.Exit) {
	body := wire.ExitBody{Code: max(0, e.Code), Leftover: e.Leftover, More: e.More, Open: len(e.Leftover) > 0 || e.More > 0}
	if e.Signal != "" {
		body.Signal = e.Code - 128
	}
	body.Killed = e.Status == sandbox.Killed || e.Status == sandbox.TimedOut
	if e.MemoryKill != nil {
		body.MemoryKill, body.Shared = true, e.MemoryKill.Shared
	}
	frame, err := wire.AppendJSON(nil, wire.Exit, p.id, body)
	if err == nil {
		p.send(frame)
	}
	if body.Open {
		<-p.run.Over()
		p.send(wire.Append(nil, wire.Closed, p.id, nil))
	}
}

// abandon ends a run whose client is gone.
func (p *program) abandon() {
	p.run.Kill()
	p.in.end()
	p.release()
}

// release ends what waits for the client.
func (p *program) release() {
	for _, o := range p.out {
		o.refuse()
	}
}

// An input is the standard input of a run: what the client has sent, at most a window.
type input struct {
	consumed func(n int)

	mu     sync.Mutex
	work   sync.Cond
	buf    []byte
	window int // bytes that the client may still send
	ended  bool
}

func (in *input) accept(p []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(p) > in.window {
		return wire.Violation("%v of %d bytes is larger than the window of %d", wire.Stdin, len(p), in.window)
	}
	in.window -= len(p)
	in.buf = append(in.buf, p...)
	in.work.Signal()
	return nil
}

func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.work.Signal()
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.take(p)
	if n > 0 {
		in.consumed(n)
	}
	return n, err
}

func (in *input) take(p []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.buf) == 0 {
		if in.ended {
			return 0, io.EOF
		}
		in.work.Wait()
	}
	n := copy(p, in.buf)
	in.buf = in.buf[:copy(in.buf, in.buf[n:])]
	in.window += n
	return n, nil
}

// An output is a stream of a run: a Writer to the client, within its window.
type output struct {
	send func(p []byte) error

	mu      sync.Mutex
	room    sync.Cond
	size    int // of the window
	credit  int // bytes that may be sent
	refused bool
}

func (o *output) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		n, err := o.reserve(len(p) - sent)
		if err == nil {
			err = o.send(p[sent : sent+n])
		}
		if err != nil {
			return sent, err
		}
		sent += n
	}
	return len(p), nil
}

// reserve waits until some of n bytes may be sent, and returns how many.
func (o *output) reserve(n int) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.credit == 0 && !o.refused {
		o.room.Wait()
	}
	if o.refused {
		return 0, os.ErrClosed
	}
	n = min(n, o.credit, wire.MaxPayload)
	o.credit -= n
	return n, nil
}

func (o *output) open(n int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n > o.size-o.credit {
		return wire.Violation("%v of %d bytes, where %d are on their way", wire.OutputTaken, n, o.size-o.credit)
	}
	o.credit += n
	o.room.Signal()
	return nil
}

func (o *output) refuse() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused = true
	o.room.Signal()
}
