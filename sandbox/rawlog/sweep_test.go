package rawlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// addRuns creates ended runs of a size, each an hour older than the next.
func addRuns(t *testing.T, s *Store, size int, execs ...string) {
	t.Helper()
	for i, exec := range execs {
		log := s.Create(Meta{Exec: exec})
		log.Write(Stdout, make([]byte, size))
		log.Finish(End{Status: "exited"})
		log.Close()
		age(t, s, exec, time.Duration(len(execs)-i)*time.Hour)
	}
}

func age(t *testing.T, s *Store, exec string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	for _, ext := range []string{logExt, indexExt} {
		if err := os.Chtimes(s.base(exec)+ext, then, then); err != nil {
			t.Fatal(err)
		}
	}
}

func wantRuns(t *testing.T, s *Store, want ...string) {
	t.Helper()
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Exec)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the store has %v, want %v", got, want)
	}
}

func TestSweepDeletesOldestBeyondMaxTotal(t *testing.T) {
	s := &Store{Dir: t.TempDir(), MaxTotal: 250 << 10}
	addRuns(t, s, 100<<10, "a", "b", "c", "d")
	wantRuns(t, s, "a", "b", "c", "d")
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, s, "c", "d")
}

func TestSweepDeletesRunsBeyondMaxAge(t *testing.T) {
	s := &Store{Dir: t.TempDir(), MaxAge: 150 * time.Minute}
	addRuns(t, s, 10, "a", "b", "c")
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, s, "b", "c")
}

// A run without output counts as two blocks.
func TestSweepCountsBlocksOfSmallFiles(t *testing.T) {
	s := &Store{Dir: t.TempDir(), MaxTotal: 5 * 2 * fileCost}
	addRuns(t, s, 1, "a", "b", "c", "d", "e", "f", "g")
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, s, "c", "d", "e", "f", "g")
}

// A run that is still written here or by another process is not deleted, even if it
// is the oldest.
func TestSweepLeavesRunningLogs(t *testing.T) {
	s := &Store{Dir: t.TempDir(), MaxAge: time.Minute, MaxTotal: 1}
	addRuns(t, s, 10, "over")
	ours, theirs := s.Create(Meta{Exec: "ours"}), (&Store{Dir: s.Dir}).Create(Meta{Exec: "theirs"})
	for _, log := range []*Log{ours, theirs} {
		log.Write(Stdout, []byte("once, long ago\n"))
		age(t, s, log.exec, 24*time.Hour)
	}
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, s, "ours", "theirs")
	ours.Close()
	theirs.Close()
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, s)
}

func TestSweepLeavesOtherFiles(t *testing.T) {
	s := &Store{Dir: t.TempDir(), MaxAge: time.Nanosecond}
	outside := filepath.Join(t.TempDir(), "outside.log")
	if err := os.WriteFile(outside, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range []string{"notes.txt", ".hidden.log", "two words.log", "log"} {
		if err := os.WriteFile(filepath.Join(s.Dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := errors.Join(os.Symlink(outside, s.base("link")+logExt), os.Mkdir(s.base("dir")+logExt, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "link.log", "dir.log") {
		if _, err := os.Lstat(filepath.Join(s.Dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// Tend does not wait for its next interval when the store grows fast.
func TestTendSweepsEarlyWhenStoreGrows(t *testing.T) {
	s := &Store{Dir: filepath.Join(t.TempDir(), "logs"), MaxTotal: 1 << 20}
	ctx, cancel := context.WithCancel(t.Context())
	var tending sync.WaitGroup
	tending.Go(func() { s.Tend(ctx) })
	defer tending.Wait()
	defer cancel()
	addRuns(t, s, 600<<10, "a", "b", "c")
	deadline := time.Now().Add(30 * time.Second)
	for i := 0; ; i++ {
		if _, err := os.Stat(s.base("a") + logExt); errors.Is(err, fs.ErrNotExist) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no run was deleted in time")
		}
		s.Create(Meta{Exec: fmt.Sprint("more", i)}).Close()
	}
	if _, err := os.Stat(s.base("c") + logExt); err != nil {
		t.Error(err)
	}
}

func TestChangedClosesOnWriteAndFinish(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	log := s.Create(Meta{Exec: "e1"})
	for _, change := range []func(){
		func() { log.Write(Stdout, []byte("x")) },
		func() { log.Finish(End{Status: "exited"}) },
		func() { log.Write(Stdout, bytes.Repeat([]byte("left behind\n"), 9)) },
	} {
		changed := log.Changed()
		select {
		case <-changed:
			t.Fatal("the channel is closed before a change")
		default:
		}
		change()
		<-changed
	}
	log.Close()
}
