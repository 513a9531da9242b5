package link

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// An ended stream records whether it was closed or detached first.
type ended struct {
	net.Conn
	once sync.Once
	how  string
}

func (e *ended) Close() error  { return e.end("closed") }
func (e *ended) Detach() error { return e.end("detached") }

func (e *ended) end(how string) error {
	e.once.Do(func() {
		e.how = how
		e.Conn.Close()
	})
	return nil
}

// pipe returns a stream and its other end.
func pipe(t *testing.T) (*ended, net.Conn) {
	host, agent := net.Pipe()
	t.Cleanup(func() { agent.Close() })
	return &ended{Conn: host}, agent
}

// The first reason for the end of a link wins, and decides what becomes of the stream.
func TestFirstReasonWins(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	survives := func(error) bool { return true }
	for _, c := range []struct {
		name   string
		config Config
		end    func(*Link)
		how    How
		cause  error
		stream string
	}{
		{"close", Config{}, func(l *Link) { l.Close(first); l.Detach(second) }, Closed, first, "closed"},
		{"close without a reason", Config{}, func(l *Link) { l.Close(nil); l.Fail(second) }, Closed, nil, "closed"},
		{"stop", Config{}, func(l *Link) { l.Stop(first); l.Close(second) }, Closed, first, "closed"},
		{"detach", Config{}, func(l *Link) { l.Detach(first); l.Close(second) }, Detached, first, "detached"},
		{"failure", Config{}, func(l *Link) { l.Fail(first); l.Detach(second) }, Failed, first, "closed"},
		{"failure that the agent survives", Config{Survives: survives}, func(l *Link) { l.Fail(first); l.Close(nil) }, Broken, first, ""},
		{"handler", Config{}, func(*Link) {}, Failed, io.ErrNoProgress, "closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stream, agent := pipe(t)
			l := New(stream, c.config)
			c.end(l)
			go agent.Write(wire.Append(nil, wire.Started, wire.ID{1}, []byte(`{}`)))
			end := l.Serve(func(wire.Frame) error { return io.ErrNoProgress })
			if end.How != c.how || end.Cause != c.cause || end != l.End() {
				t.Errorf("%+v", end)
			}
			if c.stream != "" && stream.how != c.stream {
				t.Errorf("the stream was %s", stream.how)
			}
		})
	}
}

// A failure is reported once, with its reason.
func TestFailureIsReportedOnce(t *testing.T) {
	stream, agent := pipe(t)
	var told []End
	l := New(stream, Config{Failed: func(e End) { told = append(told, e) }})
	agent.Close()
	if end := l.Serve(nil); end.Cause == nil || !strings.Contains(end.Cause.Error(), "hung up") || !slices.Equal(told, []End{end}) {
		t.Errorf("%+v, reported %+v", end, told)
	}
	l.Fail(io.EOF)
	if len(told) != 1 {
		t.Errorf("reported %+v", told)
	}
}

// The stream of an agent that answers no Hello is ended in time: detached where the
// link resumes a box, closed else.
func TestGreetEndsStreamOfSilentAgent(t *testing.T) {
	for resume, want := range map[bool]string{true: "detached", false: "closed"} {
		synctest.Test(t, func(t *testing.T) {
			stream, agent := pipe(t)
			go io.Copy(io.Discard, agent)
			begun := time.Now()
			_, err := New(stream, Config{}).Greet(t.Context(), Greeting{Hello: wire.HelloBody{Resume: resume}})
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != helloTimeout || stream.how != want {
				t.Errorf("%v after %v, the stream was %s, want %s", err, time.Since(begun), stream.how, want)
			}
		})
	}
}

// What is sent with the Hello arrives before the agent has answered it.
func TestGreetSendsAlsoBehindHello(t *testing.T) {
	stream, agent := pipe(t)
	kinds := make(chan []wire.Kind)
	go func() {
		var list []wire.Kind
		for r := wire.NewReader(agent, wire.FromHost); len(list) < 2; {
			f, err := r.Read()
			if err != nil {
				break
			}
			list = append(list, f.Kind)
		}
		agent.Write(wire.Append(nil, wire.Hello, wire.ID{}, []byte(`{"pid":7}`)))
		kinds <- list
	}()
	look, err := wire.AppendJSON(nil, wire.Look, wire.ID{}, wire.LookBody{Paths: []string{"/"}})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := New(stream, Config{}).Greet(t.Context(), Greeting{Also: look, Rest: func(wire.HelloBody, *wire.Reader) error { return nil }})
	if list := <-kinds; err != nil || answer.Pid != 7 || !slices.Equal(list, []wire.Kind{wire.Hello, wire.Look}) {
		t.Errorf("%+v, %v, the agent got %v", answer, err, list)
	}
}

// An agent that does not read fails the link.
func TestUnreadFrameFailsLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream, _ := pipe(t)
		l := New(stream, Config{})
		begun := time.Now()
		err := l.Send(wire.Append(nil, wire.Ping, wire.ID{}, nil))
		if end := l.End(); err == nil || end.How != Failed || time.Since(begun) != writeTimeout {
			t.Errorf("%v, %+v after %v", err, end, time.Since(begun))
		}
	})
}

// SendLater does not wait for the agent, and keeps the order.
func TestSendLaterKeepsOrder(t *testing.T) {
	stream, agent := pipe(t)
	l := New(stream, Config{})
	for i := range 100 {
		l.SendLater(wire.Append(nil, wire.Forget, wire.ID{byte(i + 1)}, nil))
	}
	r := wire.NewReader(agent, wire.FromHost)
	for i := range 100 {
		if f, err := r.Read(); err != nil || f.Run != (wire.ID{byte(i + 1)}) {
			t.Fatalf("frame %d: %v, %v", i, f.Run, err)
		}
	}
	l.Flush()
	l.Close(nil)
	l.SendLater(wire.Append(nil, wire.Forget, wire.ID{1}, nil)) // nothing of it is sent
	l.Flush()
}

// A Pong is an answer only while the link is open.
func TestAnswersNeedsPongInTime(t *testing.T) {
	onCarrier(t, func(t *testing.T, c *carried, l *Link) {
		if !l.Answers(t.Context(), time.Second) {
			t.Error("an agent that answers was not heard")
		}
		c.busy.Store(true)
		begun := time.Now()
		if l.Answers(t.Context(), time.Second) || time.Since(begun) != time.Second {
			t.Errorf("an answer of a silent agent, after %v", time.Since(begun))
		}
		l.Close(nil)
		if l.Answers(t.Context(), time.Second) {
			t.Error("an answer on a link that has ended")
		}
	})
}
