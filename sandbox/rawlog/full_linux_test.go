package rawlog

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// mount mounts a tmpfs and returns its directory.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount a tmpfs, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("a file is still open: %v", err)
		}
	})
	return dir
}

func TestFullDiskIsCountedAndReported(t *testing.T) {
	const size = 256 << 10
	log := (&Store{Dir: mount(t, "size=256k,mode=0700")}).Create(Meta{Exec: "e1"})
	block := bytes.Repeat([]byte("0123456789abcde\n"), 625) // 10,000 bytes, no power of two
	for range 100 {
		log.Write(Stdout, block)
	}
	log.Finish(End{Status: "exited"})
	log.Close()
	s := log.Stats()
	if s.Bytes != 1e6 || s.Lines != 62_500 || s.Kept < size/2 || s.Kept > size || s.Lost != s.Bytes-s.Kept || s.Complete {
		t.Errorf("stats %+v", s)
	}
	if !strings.Contains(s.Reason, syscall.ENOSPC.Error()) || !strings.Contains(s.Reason, log.Path()) {
		t.Errorf("reason %q", s.Reason)
	}
	text, err := os.ReadFile(log.Path())
	if err != nil || int64(len(text)) != s.Kept || !bytes.HasPrefix(bytes.Repeat(block, 100), text) {
		t.Errorf("the log has %d bytes, not the first %d (%v)", len(text), s.Kept, err)
	}
}

// After a failed write the log stores no more, even if the disk has space again: it
// would have a hole.
func TestLogHasNoHoleAfterFullDisk(t *testing.T) {
	dir := mount(t, "size=64k,mode=0700")
	ballast := dir + "/ballast"
	if err := os.WriteFile(ballast, make([]byte, 40<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	log := (&Store{Dir: dir}).Create(Meta{Exec: "e1"})
	log.Write(Stdout, make([]byte, 30<<10))
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	log.Write(Stdout, []byte("after the hole"))
	log.Close()
	if s := log.Stats(); s.Kept >= 30<<10 || s.Lost != s.Bytes-s.Kept {
		t.Errorf("stats %+v", s)
	}
}

func TestLogWithoutInodesIsCounted(t *testing.T) {
	store := &Store{Dir: mount(t, "nr_inodes=2,mode=0700")} // the root takes one
	log := store.Create(Meta{Exec: "e1"})
	log.Write(Stdout, []byte("kept"))
	log.Close()
	if s := log.Stats(); !s.Complete {
		t.Errorf("with room for the log but not for its index: %+v", s)
	}
	log = store.Create(Meta{Exec: "e2"})
	log.Write(Stdout, []byte("lost"))
	log.Close()
	if s := log.Stats(); s.Lost != 4 || log.Path() != "" {
		t.Errorf("with room for neither: path %q, %+v", log.Path(), s)
	}
	if err := store.Check(); err == nil || !strings.Contains(err.Error(), store.Dir) {
		t.Errorf("check: %v", err)
	}
}

func TestCheckReportsReadOnlyDisk(t *testing.T) {
	store := &Store{Dir: mount(t, "ro,mode=0700")}
	err := store.Check()
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "cannot write to the log directory "+store.Dir) {
		t.Errorf("check: %v", err)
	}
}

// If the disk refuses every byte of the log, the index must not cover any.
func TestIndexCoversOnlyStoredBytes(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	log := (&Store{Dir: t.TempDir()}).Create(Meta{Exec: "e1"})
	log.file.Close()
	log.file = full
	log.Write(Stderr, []byte("one\n"))
	log.Write(Stderr, []byte("two"))
	log.Close()
	if s := log.Stats(); s.Bytes != 7 || s.Lines != 2 || s.Lost != 7 || s.Complete {
		t.Errorf("stats %+v", s)
	}
	x, err := ReadIndex(strings.TrimSuffix(log.Path(), ".log") + ".idx")
	if err != nil || len(x.Spans) != 0 || x.Totals.Lost != 7 {
		t.Errorf("index %+v, %v", x, err)
	}
}

// Logs leave some disk space free, and a sweep deletes old ones when it is short.
func TestLogsLeaveDiskSpaceFree(t *testing.T) {
	const mb = 1 << 20
	s := &Store{Dir: mount(t, "size=40m,mode=0700")}
	addRuns(t, s, 12*mb, "a", "b", "c")
	log := s.Create(Meta{Exec: "e1"})
	for range 10 * 16 {
		log.Write(Stdout, bytes.Repeat([]byte("0123456789abcde\n"), mb/256))
	}
	log.Close()
	stats := log.Stats()
	if stats.Complete || stats.Kept < mb || stats.Kept > 3*mb || !strings.Contains(stats.Reason, "logs must leave") {
		t.Errorf("stats %+v", stats)
	}
	if space, err := Room(s.Dir); err != nil || space.Free < mb {
		t.Errorf("%d bytes are left, %v", space.Free, err)
	}
	if err := s.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, s, "b", "c", "e1")
	log = s.Create(Meta{Exec: "e2"})
	log.Write(Stdout, make([]byte, 2*mb))
	log.Close()
	if s := log.Stats(); !s.Complete {
		t.Errorf("stats %+v", s)
	}
}
