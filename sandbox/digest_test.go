package sandbox

import (
	"bytes"
	"log/slog"
	"testing"
	"time"
)

// TestPanicOfTheSummariserLosesOnlyTheSummary: the run goes on printing.
func TestPanicOfTheSummariserLosesOnlyTheSummary(t *testing.T) {
	var log bytes.Buffer
	box := &Box{shared: &shared{}, logger: slog.New(slog.NewTextHandler(&log, nil))}
	run := &Run{Box: box, Command: Command{Cmd: "make", SummarizeAbove: 10}, done: make(chan struct{})}
	d := newDigester(run)
	d.mask = func(string) string { panic("a line like no other") }
	run.digest = d
	line := bytes.Repeat([]byte("main.c:1:2: error: no\n"), 1000)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 4 * digestQueue / len(line) {
			d.write(0, line)
		}
		d.end(Exit{Status: Exited, Code: 2})
		close(run.done)
		<-d.done
	}()
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Fatal("the run waits for a summariser that panicked")
	}
	if digest, ok := run.Digest(t.Context()); ok {
		t.Errorf("%+v", digest)
	}
	if !bytes.Contains(log.Bytes(), []byte("panicked")) {
		t.Errorf("the panic is not logged: %s", &log)
	}
}
