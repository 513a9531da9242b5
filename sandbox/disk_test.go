package sandbox

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// A fakeDisk has as much room as a test says, and counts who asks.
type fakeDisk struct {
	free, all int64
	err       error
	looks     int
}

func (d *fakeDisk) room(string) (free, all int64, err error) {
	d.looks++
	return d.free, d.all, d.err
}

// kills is a stream to an agent that takes everything and does nothing; it
// knows which runs it was told to kill.
type kills struct{ runs []wire.ID }

func (k *kills) Write(p []byte) (int, error) {
	f, err := wire.NewReader(strings.NewReader(string(p)), wire.FromHost).Read()
	if err == nil && f.Kind == wire.Kill {
		k.runs = append(k.runs, f.Run)
	}
	return len(p), err
}
func (k *kills) Read([]byte) (int, error) { return 0, io.EOF }
func (k *kills) Close() error             { return nil }

func watched(disk *fakeDisk) (*Box, *kills) {
	told := new(kills)
	b := &Box{ID: "b", stream: told, lease: time.Hour, runs: map[wire.ID]*Run{}, gate: crowdGate(9), logger: slog.New(slog.DiscardHandler)}
	b.disk = newDiskWatch(b, 1<<30, []string{"/work"})
	b.disk.room = disk.room
	return b, told
}

// runs adds a run as Exec does, and returns how to end it.
func runs(b *Box, cmd string) (r *Run, end func()) {
	r = newRun(b, Command{Cmd: cmd})
	b.add(r)
	return r, func() {
		b.mu.Lock()
		delete(b.runs, r.wireID)
		b.mu.Unlock()
		if r.patience != nil {
			r.patience.Stop()
		}
		b.beat.Stop()
	}
}

// A disk is asked the more often the sooner it may be full, and not at all while
// nothing runs.
func TestDiskIsAskedAsOftenAsNeeded(t *testing.T) {
	const gb = 1 << 30
	for free, want := range map[int64]int{1000 * gb: 4, 9 * gb: 7, 2 * gb: 53, gb: 350} {
		synctest.Test(t, func(t *testing.T) {
			disk := &fakeDisk{free: free, all: 2000 * gb}
			b, _ := watched(disk)
			_, end := runs(b, "make")
			time.Sleep(7 * time.Second)
			synctest.Wait()
			if disk.looks < want*9/10 || disk.looks > want*11/10 {
				t.Errorf("%d GB free: asked %d times in 7 s, want %d", free/gb, disk.looks, want)
			}
			end()
			time.Sleep(longestLook + time.Millisecond)
			before := disk.looks
			time.Sleep(time.Hour)
			if disk.looks != before || b.disk.awake.Load() {
				t.Errorf("asked %d times while nothing ran", disk.looks-before)
			}
			_, end = runs(b, "make") // and it wakes up again
			defer end()
			time.Sleep(shortestLook)
			synctest.Wait()
			if disk.looks != before+1 {
				t.Errorf("asked %d times after a pause", disk.looks-before)
			}
			end()
			time.Sleep(longestLook)
		})
	}
}

// Below the floor what writes is killed and refused, what makes room is not, and
// with room again everything is as before.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &fakeDisk{free: 100 << 30, all: 200 << 30}
		b, told := watched(disk)
		dd, endDD := runs(b, "dd if=/dev/zero of=x")
		_, endRM := runs(b, "cd build && rm -rf *")
		time.Sleep(longestLook)
		if b.disk.admit(Command{Cmd: "make"}) != nil || len(told.runs) > 0 {
			t.Fatal("there is room")
		}
		disk.free = 1 << 29
		time.Sleep(longestLook + shortestLook)
		synctest.Wait()
		if !slices.Equal(told.runs, []wire.ID{dd.wireID}) {
			t.Errorf("killed %v", told.runs)
		}
		endDD()
		endRM()
		sentence := "the command was killed, with all that it started: the disk that /work of the user's machine is on has 512.0 MB left, and 1024.0 MB are kept free"
		if dd.why == nil || dd.why.Error() != sentence {
			t.Errorf("%v", dd.why)
		}
		err, ok := errors.AsType[*Error](b.disk.admit(Command{Cmd: "make"}))
		if !ok || err.Code != LimitReached || !strings.Contains(err.Hint, "rm") {
			t.Errorf("%v", err)
		}
		if err := b.disk.admit(Command{Cmd: "rm -rf build"}); err != nil {
			t.Error(err)
		}
		disk.free = 1 << 30
		if err := b.disk.admit(Command{Cmd: "make"}); err != nil {
			t.Error(err)
		}
		time.Sleep(longestLook)
	})
}

func TestFloor(t *testing.T) {
	for name, c := range map[string]struct {
		disk fakeDisk
		low  bool
	}{
		"a twentieth of a small disk": {fakeDisk{free: 5, all: 100}, false},
		"less":                        {fakeDisk{free: 4, all: 100}, true},
		"a large disk":                {fakeDisk{free: 1 << 30, all: 1 << 50}, false},
		"less of it":                  {fakeDisk{free: 1<<30 - 1, all: 1 << 50}, true},
		"one that does not tell":      {fakeDisk{err: errors.New("stale")}, false},
		"one without an end":          {fakeDisk{free: math.MaxInt64, all: math.MaxInt64}, false},
		"one of no size":              {fakeDisk{}, false},
	} {
		w := &diskWatch{most: 1 << 30, dirs: []string{"/work"}, room: c.disk.room}
		if low, _ := w.measure(); (low != nil) != c.low {
			t.Errorf("%s: %+v", name, low)
		}
	}
}

func TestFillable(t *testing.T) {
	mounts := []Mount{{Source: "/read"}, {Source: "/write", Writable: true}}
	for _, c := range []struct {
		spec  Spec
		place Place
		want  []string
	}{
		{Spec{Mounts: mounts}, Place{Workspace: "/work"}, []string{"/work", "/write"}},
		{Spec{Mounts: mounts, ReadOnly: true}, Place{Workspace: "/work"}, []string{"/write"}},
		{Spec{Mounts: mounts}, Place{}, nil}, // another machine's
	} {
		if got := fillable(c.spec, c.place); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if newDiskWatch(nil, 0, []string{"/work"}) != nil || newDiskWatch(nil, 1, nil) != nil {
		t.Error("there is nothing to watch")
	}
}

func TestTidies(t *testing.T) {
	for cmd, want := range map[string]bool{
		"rm -rf build":                  true,
		"cd sub && rm -f *.o; du -sh .": true,
		"ls -laS | ls":                  true,
		"rm x > y":                      false,
		"rm $(dd of=x)":                 false,
		"rm x; make":                    false,
		"rm() { make; }; rm":            false,
		"true":                          false,
	} {
		if tidies(Command{Cmd: cmd}) != want {
			t.Errorf("%s: %v", cmd, !want)
		}
	}
	if tidies(Command{Cmd: "rm x", Shell: "dev"}) || tidies(Command{Cmd: "rm x", Env: map[string]string{"LD_PRELOAD": "x"}}) {
		t.Error("rm may be anything")
	}
}
