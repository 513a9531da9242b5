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

// tending returns a store for which Tend runs, and a function that ends Tend.
func tending(t *testing.T) (s *Store, end func()) {
	s = &Store{Dir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	var tend sync.WaitGroup
	tend.Go(func() { s.Tend(ctx) })
	end = func() { cancel(); tend.Wait() }
	t.Cleanup(end)
	return s, end
}

// awaitPrepared requests a prepared log and waits for it.
func awaitPrepared(t *testing.T, s *Store, draw func() string) *Log {
	t.Helper()
	s.Prepare(draw)
	select {
	case next := <-s.prepared:
		return next.log
	case <-time.After(5 * time.Second):
		t.Fatal("no log was prepared in time")
	}
	return nil
}

// names draws e1, e2 and so on. Only Tend calls it.
func names() func() string {
	n := 0
	return func() string { n++; return fmt.Sprint("e", n) }
}

func TestPreparedLogWorksLikeCreated(t *testing.T) {
	s, _ := tending(t)
	l := awaitPrepared(t, s, names())
	if l.Exec() != "e1" || l.Path() != s.Path("e1") {
		t.Fatalf("the first log is named %s, at %s", l.Exec(), l.Path())
	}
	if !s.Written("e1") {
		t.Error("the log does not count as written, so another process may delete it")
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
		t.Errorf("the log has %q, %v", text, err)
	}
	if s.Written("e1") {
		t.Error("a closed log counts as written")
	}
}

func TestPrepareWithoutTendCreatesNothing(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	s.Prepare(names())
	if l := s.Prepared(); l != nil {
		t.Errorf("got the log %s", l.Exec())
	}
}

func TestTendDiscardsUnusedPreparedLogs(t *testing.T) {
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
		t.Errorf("after three runs the store has the files of %d, %v", len(list), err)
	}
}

func TestDiscardDeletesFiles(t *testing.T) {
	s, end := tending(t)
	awaitPrepared(t, s, names()).Discard()
	end()
	wantRuns(t, s)
	if s.writing("e1") != nil {
		t.Error("a discarded log counts as written")
	}
}

// Prepared does not return a log whose files were deleted, alone or with their
// directory.
func TestPreparedSkipsDeletedFiles(t *testing.T) {
	s := &Store{Dir: filepath.Join(t.TempDir(), "logs")}
	s.prepareOnce.Do(s.makePrepared)
	s.fillPrepared(names())
	if err := os.Remove(s.base("e1") + indexExt); err != nil {
		t.Fatal(err)
	}
	l := s.Prepared()
	if l == nil || l.Exec() != "e2" {
		t.Fatal("Prepared did not return the second log")
	}
	l.Discard()
	s.fillPrepared(names())
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	if l := s.Prepared(); l != nil {
		t.Errorf("Prepared returned %s, whose files are deleted", l.Exec())
	}
}

func TestSweepLeavesPreparedLogs(t *testing.T) {
	s := &Store{Dir: t.TempDir(), MaxTotal: 1}
	s.prepareOnce.Do(s.makePrepared)
	s.fillPrepared(names())
	age(t, s, "e1", 30*24*time.Hour)
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := s.Prepared()
	if l == nil || l.Exec() != "e1" {
		t.Fatal("a sweep deleted the first prepared log")
	}
	l.Discard()
	s.discardPrepared()
	wantRuns(t, s)
}
