package docker

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/warmbox/warmbox/filelock"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if held(path) {
		t.Error("a file that is not there is held")
	}
	first, err := waitLock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if !held(path) {
		t.Error("what somebody has is not held")
	}
	if _, err := waitLock(t.Context(), path); !errors.Is(err, filelock.ErrHeld) {
		t.Errorf("the second gets %v", err)
	}
	first.release()
	look, err := lookAt(path)
	if err != nil || held(path) {
		t.Errorf("what was given back is held, if only by who looks: %v", err)
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

// Who makes a lock is never without it, however many look whether it is free and
// take it away where it is.
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
		if !still(l.file, path) || !held(path) {
			t.Fatal("the lock was taken away from who has it")
		}
		l.release()
	}
	close(done)
	sweeps.Wait()
}
