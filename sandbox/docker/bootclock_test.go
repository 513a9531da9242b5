package docker

import (
	"path/filepath"
	"testing"
	"time"
)

func TestMoment(t *testing.T) {
	now := bootClock()
	if got, ok := parseBootTime(now.String()); !ok || got != now {
		t.Errorf("%q is read as %+v", now, got)
	}
	if later := bootClock(); later.boot != now.boot || later.at < now.at {
		t.Errorf("%q comes after %q", later, now)
	}
	for _, s := range []string{"", "boot", "boot ", "boot 1 2", "boot 1\n", "boot x", "boot 99999999999999999999", "boot 9223372036854775807", "1970-01-01T00:00:00Z"} {
		if m, ok := parseBootTime(s); ok {
			t.Errorf("%q is read as %+v", s, m)
		}
	}
}

// How long a kept box waits is counted from the first look that finds it alone,
// by a clock that is not the wall's. Who boots the machine begins anew.
func TestWaited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claim")
	lock, err := waitLock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { lock.release() }()
	first := bootTime{"first", 500 * time.Second}
	second := bootTime{"second", 10 * time.Second}
	for _, look := range []struct {
		now  bootTime
		over bool
	}{
		{first, false},
		{first.add(time.Hour), false},
		{first.add(time.Hour + reattachMargin), false},
		{first.add(time.Hour + reattachMargin + time.Second), true},
		{second, false},
		{second.add(time.Hour), false},
		{second.add(2 * time.Hour), true},
	} {
		if over := lock.expired(look.now, time.Hour); over != look.over {
			t.Errorf("at %q: over is %v, noted is %q", look.now, over, lock.read())
		}
	}
	if err := (&boxLock{box: lock}).forfeit(); err != nil {
		t.Fatal(err)
	}
	if alive, over := checkLock(path, time.Hour); alive || !over {
		t.Errorf("of a forfeit claim: alive %v, over %v", alive, over)
	}
	if lock, err = waitLock(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if err := lock.write(""); err != nil { // as who takes it over does
		t.Fatal(err)
	}
	if lock.expired(second, time.Hour) {
		t.Error("a claim that somebody had since is over")
	}
}
