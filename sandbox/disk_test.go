package sandbox

import (
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmbox/warmbox/sandbox/link"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A fakeDisk has as much room as a test says, and counts the measurements.
type fakeDisk struct {
	free, all           int64
	freeFiles, allFiles int64 // 0: it makes them as they are wanted
	err                 error

	mu    sync.Mutex
	looks int
}

func (d *fakeDisk) room(string) (rawlog.Space, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks++
	return rawlog.Space{Free: d.free, All: d.all, FreeFiles: d.freeFiles, AllFiles: d.allFiles}, d.err
}

func (d *fakeDisk) asked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.looks
}

func (d *fakeDisk) leave(free int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = free
}

// A killRecorder is a stream to an agent that takes everything and does nothing; it
// records which runs it was told to kill.
type killRecorder struct {
	mu   sync.Mutex
	runs []wire.ID
}

func (k *killRecorder) list() []wire.ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.runs)
}

func (k *killRecorder) Write(p []byte) (int, error) {
	f, err := wire.NewReader(strings.NewReader(string(p)), wire.FromHost).Read()
	if err == nil && f.Kind == wire.Kill {
		k.mu.Lock()
		k.runs = append(k.runs, f.Run)
		k.mu.Unlock()
	}
	return len(p), err
}
func (k *killRecorder) Read([]byte) (int, error) { return 0, io.EOF }
func (k *killRecorder) Close() error             { return nil }

func watched(disk *fakeDisk) (*Box, *killRecorder) {
	told := new(killRecorder)
	b := testBox("b", told, link.Config{Lease: time.Hour})
	b.disk = newDiskWatch(b, 1<<30, []string{"/work"})
	b.disk.room = disk.room
	return b, told
}

// testBox returns a box on a stream of which nothing is read.
func testBox(id string, stream io.ReadWriteCloser, c link.Config) *Box {
	b := &Box{ID: id, shared: &shared{}, runs: map[wire.ID]*Run{}, limiter: newLimiter(9), logger: slog.New(slog.DiscardHandler)}
	c.Active = b.busy
	b.conn = &conn{Link: link.New(stream, c), box: id, logger: b.logger}
	return b
}

// runs adds a run as Exec does, and returns how to end it.
func runs(b *Box, cmd string) (r *Run, end func()) {
	var id wire.ID
	rand.Read(id[:])
	r = newRun(b, Command{Cmd: cmd}, runStart{id: newExecID(), wireID: id, time: time.Now()})
	b.add(r)
	b.disk.wake()
	return r, func() {
		b.remove(r)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.killed.deadline != nil {
			r.killed.deadline.Stop()
		}
	}
}

// pass lets time pass, and all that it sets off happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// The sooner a disk may be full the more often it is measured, and not at all while
// nothing runs.
func TestDiskIsMeasuredAsOftenAsNeeded(t *testing.T) {
	const gb = 1 << 30
	for free, want := range map[int64]int{1000 * gb: 4, 9 * gb: 7, 2 * gb: 53, gb: 350} {
		synctest.Test(t, func(t *testing.T) {
			disk := &fakeDisk{free: free, all: 2000 * gb}
			b, _ := watched(disk)
			_, end := runs(b, "make")
			pass(7 * time.Second)
			if disk.asked() < want*9/10 || disk.asked() > want*11/10 {
				t.Errorf("%d GB free: asked %d times in 7 s, want %d", free/gb, disk.asked(), want)
			}
			end()
			pass(longestPause + time.Millisecond)
			before := disk.asked()
			pass(time.Hour)
			if disk.asked() != before || b.disk.awake.Load() {
				t.Errorf("asked %d times while nothing ran", disk.asked()-before)
			}
			_, end = runs(b, "make") // and it wakes up again
			defer end()
			pass(shortestPause)
			if disk.asked() != before+1 {
				t.Errorf("asked %d times after a pause", disk.asked()-before)
			}
			end()
			pass(longestPause)
		})
	}
}

// Below the floor what writes is killed and refused, what makes room is not, and
// with room again everything is as before.
func TestFullDiskKillsWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &fakeDisk{free: 100 << 30, all: 200 << 30}
		b, told := watched(disk)
		dd, endDD := runs(b, "dd if=/dev/zero of=x")
		_, endRM := runs(b, "cd build && rm -rf *")
		pass(longestPause)
		if b.disk.admit(Command{Cmd: "make"}) != nil || len(told.list()) > 0 {
			t.Fatal("there is room")
		}
		disk.leave(1 << 29)
		pass(longestPause + shortestPause)
		if !slices.Equal(told.list(), []wire.ID{dd.wireID}) {
			t.Errorf("killed %v", told.list())
		}
		endDD()
		endRM()
		sentence := "the command was killed, with every process that it had started: the disk of /work on the user's machine has 512.0 MB free, and 1024.0 MB must stay free"
		dd.mu.Lock()
		why := dd.killed.why
		dd.mu.Unlock()
		if why == nil || why.Error() != sentence {
			t.Errorf("%v", why)
		}
		err, ok := errors.AsType[*Error](b.disk.admit(Command{Cmd: "make"}))
		if !ok || err.Code != LimitReached || !strings.Contains(err.Hint, "rm") {
			t.Errorf("%v", err)
		}
		if err := b.disk.admit(Command{Cmd: "rm -rf build"}); err != nil {
			t.Error(err)
		}
		disk.leave(1 << 30)
		if err := b.disk.admit(Command{Cmd: "make"}); err != nil {
			t.Error(err)
		}
		pass(longestPause)
	})
}

// The fewer files a disk can have the more often it is measured, and the error for a
// disk without any says so.
func TestDiskOfFewFilesIsMeasuredOften(t *testing.T) {
	for free, want := range map[int64]int{10_000_000: 4, 1_000_000 + 65_536: 7, 100_000 + 65_536: 70, 65_536: 350} {
		synctest.Test(t, func(t *testing.T) {
			disk := &fakeDisk{free: 1 << 50, all: 1 << 50, freeFiles: free, allFiles: 1 << 30}
			b, told := watched(disk)
			run, end := runs(b, "make")
			defer end()
			pass(7 * time.Second)
			if disk.asked() < want*9/10 || disk.asked() > want*11/10 || len(told.list()) > 0 {
				t.Errorf("%d files free: asked %d times in 7 s, want %d; killed %v", free, disk.asked(), want, told.list())
			}
			disk.mu.Lock()
			disk.freeFiles = 12
			disk.mu.Unlock()
			pass(longestPause + shortestPause)
			err, ok := errors.AsType[*Error](b.disk.admit(Command{Cmd: "make"}))
			if !slices.Equal(told.list(), []wire.ID{run.wireID}) || !ok || !strings.Contains(err.Error(), "room for 12 more files (inodes), and room for 65536 must stay free") || !strings.Contains(err.Hint, "df -i") {
				t.Errorf("killed %v; %v", told.list(), err)
			}
		})
	}
}

func TestFloorIsATwentiethAtMost(t *testing.T) {
	for name, c := range map[string]struct {
		disk *fakeDisk
		low  bool
	}{
		"a twentieth of a small disk": {&fakeDisk{free: 5, all: 100}, false},
		"less":                        {&fakeDisk{free: 4, all: 100}, true},
		"a large disk":                {&fakeDisk{free: 1 << 30, all: 1 << 50}, false},
		"less of it":                  {&fakeDisk{free: 1<<30 - 1, all: 1 << 50}, true},
		"files of a small disk":       {&fakeDisk{free: 50, all: 100, freeFiles: 500, allFiles: 10_000}, false},
		"fewer":                       {&fakeDisk{free: 50, all: 100, freeFiles: 499, allFiles: 10_000}, true},
		"files of a large disk":       {&fakeDisk{free: 50, all: 100, freeFiles: 65_536, allFiles: 1 << 40}, false},
		"fewer of it":                 {&fakeDisk{free: 50, all: 100, freeFiles: 65_535, allFiles: 1 << 40}, true},
		"files without a number":      {&fakeDisk{free: 50, all: 100, freeFiles: 0, allFiles: 0}, false},
		"one that does not tell":      {&fakeDisk{err: errors.New("stale")}, false},
		"one without an end":          {&fakeDisk{free: math.MaxInt64, all: math.MaxInt64}, false},
		"one of no size":              {&fakeDisk{}, false},
	} {
		w := newDiskWatch(&Box{}, 1<<30, []string{"/work"})
		w.room = c.disk.room
		if err := w.admit(Command{Cmd: "make"}); (err != nil) != c.low {
			t.Errorf("%s: the first command: %v", name, err)
		}
	}
}

func TestFillableListsWritableDirectories(t *testing.T) {
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
	if newDiskWatch(&Box{}, 0, []string{"/work"}) != nil || newDiskWatch(&Box{}, 1, nil) != nil {
		t.Error("there is nothing to watch")
	}
}

func TestTidiesAdmitsOnlyCommandsThatMakeRoom(t *testing.T) {
	for cmd, want := range map[string]bool{
		"rm -rf build":                  true,
		"cd sub && rm -f *.o; du -sh .": true,
		"ls -laS | ls":                  true,
		"rm x > y":                      false,
		"rm $(dd of=x)":                 false,
		"rm x; make":                    false,
		"rm() { make; }; rm":            false,
		"make":                          false,
		"find . -size +100M":            true,
		"find . -xdev -type f -size +100M 2>/dev/null | head": true,
		"find . -name '*.o' -exec rm {} +":                    true,
		"find . -exec dd of={} \\;":                           false,
		"find . -fprint x":                                    false,
		"du -a . 2>/dev/null; df -h | sort -rn | head -5":     true,
		"du -a . | sort -rn | head":                           true,
		"sort -rno big x":                                     false,
		"sort -T . x":                                         false,
		"sort --temporary-directory=. x":                      false,
		"sort $OPTIONS x":                                     false,
		"sort '-o' big x":                                     false,
		"sort -o big x":                                       false,
		"sort --output=big x":                                 false,
		"cat x | tee y":                                       false,
		"cat x>y":                                             false,
		"cat x 2>/dev/null/../y":                              false,
		"cat x >/dev/nully":                                   false,
		"stat x && grep -c a x":                               true,
	} {
		if tidies(Command{Cmd: cmd}) != want {
			t.Errorf("%s: %v", cmd, !want)
		}
	}
	if tidies(Command{Cmd: "rm x", Shell: "dev"}) || tidies(Command{Cmd: "rm x", Env: map[string]string{"LD_PRELOAD": "x"}}) {
		t.Error("rm may be anything")
	}
}
