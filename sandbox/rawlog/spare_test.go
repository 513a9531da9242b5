package rawlog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// tending returns a store that Tend looks after, and what ends that.
func tending(t *testing.T) (s *Store, end func()) {
	s = &Store{Dir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	var tend sync.WaitGroup
	tend.Go(func() { s.Tend(ctx) })
	end = func() { cancel(); tend.Wait() }
	t.Cleanup(end)
	return s, end
}

// awaitPrepared returns a log that Prepare has asked for.
func awaitPrepared(t *testing.T, s *Store, draw func() string) *Log {
	t.Helper()
	s.Prepare(draw)
	select {
	case next := <-s.sparesReady:
		return next.log
	case <-time.After(5 * time.Second):
		t.Fatal("no log was made ahead")
	}
	return nil
}

// names draws e1, e2 and so on. Only Tend calls it.
func names() func() string {
	n := 0
	return func() string { n++; return fmt.Sprint("e", n) }
}

func TestPreparedIsAsCreated(t *testing.T) {
	s, _ := tending(t)
	l := awaitPrepared(t, s, names())
	if l.Exec() != "e1" || l.Path() != s.Path("e1") {
		t.Fatalf("the first log is of %s, in %s", l.Exec(), l.Path())
	}
	if !s.Written("e1") {
		t.Error("another process may delete it")
	}
	start := time.Now()
	l.Begin(Meta{Box: "b", Cmd: "make", Start: start})
	l.Write(Stdout, []byte("hello\n"))
	l.Finish(End{Status: "exited"})
	l.Close()
	x, err := s.Head("e1")
	if err != nil || x.Exec != "e1" || x.Box != "b" || x.Cmd != "make" || !x.Start.Equal(start) {
		t.Errorf("its index says %+v, %v", x, err)
	}
	if text, err := os.ReadFile(l.Path()); string(text) != "hello\n" || err != nil {
		t.Errorf("it has %q, %v", text, err)
	}
	if s.Written("e1") {
		t.Error("it is over, and counts as written")
	}
}

func TestNothingIsMadeAheadThatNobodyTends(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	s.Prepare(names())
	if l := s.Prepared(); l != nil {
		t.Errorf("there is %s", l.Exec())
	}
}

func TestSparesAreFew(t *testing.T) {
	s, end := tending(t)
	draw := names()
	for range 3 {
		l := awaitPrepared(t, s, draw)
		l.Begin(Meta{})
		l.Close()
	}
	end()
	list, err := s.List()
	if err != nil || len(list) != 3 {
		t.Errorf("of three runs there are the files of %d, %v", len(list), err)
	}
}

func TestDiscard(t *testing.T) {
	s, end := tending(t)
	awaitPrepared(t, s, names()).Discard()
	end()
	wantRuns(t, s)
	if s.writing("e1") != nil {
		t.Error("a log that was discarded counts as written")
	}
}

// A log whose files somebody deleted, with their directory or without, is nobody's.
func TestSpareCleanedAway(t *testing.T) {
	s := &Store{Dir: filepath.Join(t.TempDir(), "logs")}
	s.spares.Do(s.makeRoomForSpares)
	s.addSpares(names())
	if err := os.Remove(s.base("e1") + indexExt); err != nil {
		t.Fatal(err)
	}
	l := s.Prepared()
	if l == nil || l.Exec() != "e2" {
		t.Fatal("the second is not there")
	}
	l.Discard()
	s.addSpares(names())
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	if l := s.Prepared(); l != nil {
		t.Errorf("%s stands ready without its files", l.Exec())
	}
}

func TestSparesAreNotSwept(t *testing.T) {
	s := &Store{Dir: t.TempDir(), MaxTotal: 1}
	s.spares.Do(s.makeRoomForSpares)
	s.addSpares(names())
	age(t, s, "e1", 30*24*time.Hour)
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := s.Prepared()
	if l == nil || l.Exec() != "e1" {
		t.Fatal("a sweep took the first spare")
	}
	l.Discard()
	s.discardSpares()
	wantRuns(t, s)
}
