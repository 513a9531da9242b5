package docker

import (
	"path/filepath"
	"testing"
	"time"
)

func TestBootTimeRoundTrip(t *testing.T) {
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

// The reattach timeout of a box starts at the first check that finds its lock free,
// and uses a clock that no user can set. A reboot starts it again.
func TestReattachTimeoutStartsAtTheFirstCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claim")
	lock, err := waitLock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { lock.release() }()
	first := bootTime{"first", 500 * time.Second}
	second := bootTime{"second", 10 * time.Second}
	for _, check := range []struct {
		now     bootTime
		expired bool
	}{
		{first, false},
		{first.add(time.Hour), false},
		{first.add(time.Hour + reattachMargin), false},
		{first.add(time.Hour + reattachMargin + time.Second), true},
		{second, false},
		{second.add(time.Hour), false},
		{second.add(2 * time.Hour), true},
	} {
		if expired := lock.expired(check.now, time.Hour); expired != check.expired {
			t.Errorf("at %q: expired is %v, the file has %q", check.now, expired, lock.read())
		}
	}
	if err := (&boxLock{box: lock}).forfeit(); err != nil {
		t.Fatal(err)
	}
	if alive, expired := checkLock(path, time.Hour); alive || !expired {
		t.Errorf("of a forfeited lock: alive %v, expired %v", alive, expired)
	}
	if lock, err = waitLock(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if err := lock.write(""); err != nil { // as a process that reattaches does
		t.Fatal(err)
	}
	if lock.expired(second, time.Hour) {
		t.Error("a lock that a process has held since is expired")
	}
}
