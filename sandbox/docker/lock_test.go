package docker

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/warmbox/warmbox/filelock"
)

func TestLockIsExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if held(path) {
		t.Error("a missing file is held")
	}
	first, err := waitLock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if !held(path) {
		t.Error("a locked file is not held")
	}
	if _, err := waitLock(t.Context(), path); !errors.Is(err, filelock.ErrHeld) {
		t.Errorf("the second gets %v", err)
	}
	first.release()
	look, err := shareLock(path)
	if err != nil || held(path) {
		t.Errorf("a released lock is held, or a shared one counts as held: %v", err)
	}
	look.release()
	if first, err = tryLock(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := first.remove(); err != nil || held(path) {
		t.Errorf("after its end: %v", err)
	}
	if err := os.Symlink("elsewhere", path); err != nil {
		t.Skip(err)
	}
	if _, err := waitLock(t.Context(), path); err == nil {
		t.Error("a link is followed")
	}
}

// The holder of a lock never loses it, however many other processes check it and
// remove it when it is free.
func TestLockBesideSweeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	done := make(chan struct{})
	var sweeps sync.WaitGroup
	for range 4 {
		sweeps.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if l, err := tryLock(path, 0); err == nil {
					l.remove()
				}
			}
		})
	}
	for range 300 {
		l, err := waitLock(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if !sameFile(l.file, path) || !held(path) {
			t.Fatal("another process removed a held lock")
		}
		l.release()
	}
	close(done)
	sweeps.Wait()
}
