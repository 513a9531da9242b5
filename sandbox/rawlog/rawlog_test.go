package rawlog_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/warmbox/warmbox/sandbox/rawlog"
)

func newStore(t testing.TB) *rawlog.Store {
	return &rawlog.Store{Dir: filepath.Join(t.TempDir(), "logs")}
}

func readIndex(t testing.TB, log string) *rawlog.Index {
	t.Helper()
	x, err := rawlog.ReadIndex(strings.TrimSuffix(log, ".log") + ".idx")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func wantFile(t testing.TB, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s has %d bytes, not the %d expected: %.100q", path, len(got), len(want), got)
	}
}

// The test uses the fake clock of synctest, so every arrival time is exact.
func TestLogAndIndexOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		log := newStore(t).Create(rawlog.Meta{Exec: "e1", Box: "b1", Cmd: "make && make test", Dir: "/workspace", Start: start})
		log.Write(rawlog.Stdout, []byte("one\ntw"))
		time.Sleep(50 * time.Millisecond)
		log.Write(rawlog.Stdout, []byte("o\n"))
		log.Write(rawlog.Stderr, []byte("\xff\x00oops\n"))
		time.Sleep(5 * time.Millisecond)
		log.Write(rawlog.Stdout, []byte("three\n"))
		time.Sleep(100 * time.Millisecond)
		log.Write(rawlog.Stdout, []byte("four\n"))
		log.Finish(rawlog.End{Status: "exited", Code: 2, Took: 155 * time.Millisecond})
		log.Write(rawlog.Stdout, []byte("left behind"))
		log.Close()

		wantFile(t, log.Path(), "one\ntwo\n\xff\x00oops\nthree\nfour\nleft behind")
		stats := rawlog.Stats{Bytes: 37, Lines: 6, Kept: 37, Complete: true}
		if diff := cmp.Diff(stats, log.Stats()); diff != "" {
			t.Errorf("stats (-want +got):\n%s", diff)
		}
		const ms = time.Millisecond
		want := &rawlog.Index{
			Meta:     rawlog.Meta{Exec: "e1", Box: "b1", Cmd: "make && make test", Dir: "/workspace", Start: start},
			CmdBytes: 17,
			Spans: []rawlog.Span{
				{Stream: rawlog.Stdout, Off: 0, Len: 8, Line: 0, Feeds: 2, At: 0},
				{Stream: rawlog.Stderr, Off: 8, Len: 7, Line: 2, Feeds: 1, At: 50 * ms},
				{Stream: rawlog.Stdout, Off: 15, Len: 6, Line: 3, Feeds: 1, At: 55 * ms},
				{Stream: rawlog.Stdout, Off: 21, Len: 5, Line: 4, Feeds: 1, At: 155 * ms},
				{Stream: rawlog.Stdout, Off: 26, Len: 11, Line: 5, Feeds: 0, At: 155 * ms},
			},
			End:      &rawlog.End{Status: "exited", Code: 2, Took: 155 * ms},
			Leftover: 4,
			Totals:   &stats,
		}
		if diff := cmp.Diff(want, readIndex(t, log.Path())); diff != "" {
			t.Errorf("index (-want +got):\n%s", diff)
		}
	})
}

func TestIndexIsAtMostOneSecondBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newStore(t).Create(rawlog.Meta{Exec: "e1", Cmd: "sleep 9"})
		defer log.Close()
		if x := readIndex(t, log.Path()); x.Cmd != "sleep 9" || x.Spans != nil || x.Totals != nil {
			t.Errorf("the index of a run that has just begun is %+v", x)
		}
		for i := range 3 {
			log.Write(rawlog.Stderr, []byte("tick\n"))
			wantFile(t, log.Path(), strings.Repeat("tick\n", i+1))
			time.Sleep(time.Second)
			synctest.Wait()
			if x := readIndex(t, log.Path()); len(x.Spans) != i+1 {
				t.Errorf("a second after write %d the index has the spans %v", i+1, x.Spans)
			}
		}
		log.Finish(rawlog.End{Status: "timeout", Code: 137, Signal: "KILL"})
		time.Sleep(time.Second)
		synctest.Wait()
		if x := readIndex(t, log.Path()); x.End == nil || x.End.Signal != "KILL" || x.Totals != nil {
			t.Errorf("a second after the command's end the index is %+v", x)
		}
	})
}

func TestFilesArePrivate(t *testing.T) {
	log := newStore(t).Create(rawlog.Meta{Exec: "e1"})
	log.Close()
	if runtime.GOOS == "windows" {
		t.Skip("on Windows the mode does not tell who may read")
	}
	index := strings.TrimSuffix(log.Path(), ".log") + ".idx"
	for path, want := range map[string]os.FileMode{
		filepath.Dir(log.Path()): os.ModeDir | 0o700,
		log.Path():               0o600,
		index:                    0o600,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
	}
}

func TestMaxRunLimitsStoredBytes(t *testing.T) {
	store := newStore(t)
	store.MaxRun = 10
	for _, test := range []struct {
		writes []string
		want   rawlog.Stats
	}{
		{[]string{"12345", "67890"}, rawlog.Stats{Bytes: 10, Lines: 1, Kept: 10, Complete: true}},
		{[]string{"12345", "67890", "\n"}, rawlog.Stats{Bytes: 11, Lines: 1, Kept: 10, Lost: 1}},
		{[]string{"1234\n", "6789\n12\n45", "\n\n"}, rawlog.Stats{Bytes: 17, Lines: 5, Kept: 10, Lost: 7}},
		{[]string{strings.Repeat("x", 1000)}, rawlog.Stats{Bytes: 1000, Lines: 1, Kept: 10, Lost: 990}},
	} {
		log := store.Create(rawlog.Meta{Exec: fmt.Sprintf("e%d", test.want.Bytes)})
		for _, s := range test.writes {
			log.Write(rawlog.Stdout, []byte(s))
		}
		log.Close()
		if !test.want.Complete {
			test.want.Reason = "the log of one run is limited to 10 bytes"
		}
		if diff := cmp.Diff(test.want, log.Stats()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.writes, diff)
		}
		if diff := cmp.Diff(&test.want, readIndex(t, log.Path()).Totals); diff != "" {
			t.Errorf("%q: totals (-want +got):\n%s", test.writes, diff)
		}
		wantFile(t, log.Path(), strings.Join(test.writes, "")[:10])
	}
}

// A command that changes streams with every byte must not make its index large.
func TestIndexStaysSmallWhenStreamsAlternate(t *testing.T) {
	const writes = 300_000
	log := newStore(t).Create(rawlog.Meta{Exec: "e1"})
	for i := range writes {
		log.Write([]rawlog.Stream{rawlog.Stdout, rawlog.Stderr}[i%2], []byte{'\n'})
	}
	log.Close()
	info, err := os.Stat(strings.TrimSuffix(log.Path(), ".log") + ".idx")
	if err != nil {
		t.Fatal(err)
	}
	if limit := int64(1<<20 + 4096); info.Size() > limit {
		t.Errorf("the index takes %d bytes, more than %d", info.Size(), limit)
	}
	x := readIndex(t, log.Path())
	for i, s := range x.Spans[:50_000] {
		if want := []rawlog.Stream{rawlog.Stdout, rawlog.Stderr}[i%2]; s.Stream != want || s.Len != 1 {
			t.Fatalf("span %d is %+v", i, s)
		}
	}
	last := x.Spans[len(x.Spans)-1]
	if last.Stream != rawlog.Mixed || last.Off+last.Len != writes || last.Line+last.Feeds != writes {
		t.Errorf("the last span is %+v", last)
	}
}

// For any output, the spans cover the whole log without gap or overlap, and count
// its line feeds.
func TestSpansCoverLog(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	log := newStore(t).Create(rawlog.Meta{Exec: "e1"})
	for range 500 {
		p := bytes.Repeat([]byte("some text\n"), 1+rnd.IntN(6000))
		log.Write([]rawlog.Stream{rawlog.Stdout, rawlog.Stdout, rawlog.Stderr}[rnd.IntN(3)], p[rnd.IntN(10):])
	}
	log.Close()
	text, err := os.ReadFile(log.Path())
	if err != nil {
		t.Fatal(err)
	}
	var off, line int64
	for _, s := range readIndex(t, log.Path()).Spans {
		if s.Off != off || s.Line != line {
			t.Fatalf("%+v does not begin at byte %d, line %d", s, off, line)
		}
		off, line = off+s.Len, line+s.Feeds
		if feeds := bytes.Count(text[s.Off:off], []byte("\n")); int64(feeds) != s.Feeds {
			t.Fatalf("%+v holds %d line feeds", s, feeds)
		}
	}
	if off != int64(len(text)) {
		t.Errorf("the spans end at %d, the log at %d", off, len(text))
	}
}

func TestLongCommandIsCutInIndex(t *testing.T) {
	log := newStore(t).Create(rawlog.Meta{Exec: "e1", Cmd: strings.Repeat("é", 1<<19)})
	log.Close()
	x := readIndex(t, log.Path())
	if x.Cmd != strings.Repeat("é", 8<<10) || x.CmdBytes != 1<<20 {
		t.Errorf("of %d bytes the index has %d", x.CmdBytes, len(x.Cmd))
	}
}

func TestCreateNeverOpensExistingFiles(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]func(path string) error{
		"a symbolic link":        func(path string) error { return os.Symlink(victim, path) },
		"a link to nothing":      func(path string) error { return os.Symlink(victim+"2", path) },
		"a log of the same name": func(path string) error { return os.Link(victim, path) },
		"a directory":            func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			if err := store.Check(); err != nil {
				t.Fatal(err)
			}
			if err := block(filepath.Join(store.Dir, "e1.log")); err != nil {
				t.Skipf("cannot make %s: %v", name, err)
			}
			log := store.Create(rawlog.Meta{Exec: "e1"})
			log.Write(rawlog.Stdout, []byte("lost\n"))
			log.Close()
			if s := log.Stats(); log.Path() != "" || s.Lost != 5 || s.Lines != 1 || s.Complete || !strings.Contains(s.Reason, "e1.log") {
				t.Errorf("%s: path %q, stats %+v", name, log.Path(), s)
			}
			wantFile(t, victim, "dear")
			if _, err := os.Lstat(victim + "2"); err == nil {
				t.Errorf("%s: the link was followed", name)
			}
		})
	}
}

func TestLogWorksWithoutIndex(t *testing.T) {
	store := newStore(t)
	if err := os.MkdirAll(filepath.Join(store.Dir, "e1.idx"), 0o700); err != nil {
		t.Fatal(err)
	}
	log := store.Create(rawlog.Meta{Exec: "e1"})
	log.Write(rawlog.Stdout, []byte("kept\n"))
	log.Finish(rawlog.End{})
	log.Close()
	wantFile(t, log.Path(), "kept\n")
	if s := log.Stats(); !s.Complete {
		t.Errorf("stats %+v", s)
	}
}

func TestCreateRefusesPathsAsNames(t *testing.T) {
	for _, exec := range []string{"", ".", "..", "../e1", "a/b", `a\b`, "e1\n", "e 1", "é", strings.Repeat("e", 129)} {
		store := newStore(t)
		log := store.Create(rawlog.Meta{Exec: exec})
		log.Write(rawlog.Stdout, []byte("lost"))
		log.Close()
		if s := log.Stats(); log.Path() != "" || s.Lost != 4 || !strings.Contains(s.Reason, "name") {
			t.Errorf("%q: path %q, stats %+v", exec, log.Path(), s)
		}
		if _, err := os.Stat(store.Dir); err == nil {
			t.Errorf("%q created the directory", exec)
		}
	}
}

func TestCheckLeavesNoFiles(t *testing.T) {
	store := newStore(t)
	if err := store.Check(); err != nil {
		t.Fatal(err)
	}
	if err := store.Check(); err != nil {
		t.Errorf("a second time: %v", err)
	}
	left, err := os.ReadDir(store.Dir)
	if err != nil || len(left) > 0 {
		t.Errorf("Check left %v (%v)", left, err)
	}
}

func TestCheckRefusesUnusableDirectories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	exposed := t.TempDir()
	if err := os.Chmod(exposed, 0o777); err != nil {
		t.Fatal(err)
	}
	locked := t.TempDir()
	if err := os.Chmod(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		filepath.Join(file, "logs"):   "cannot make the log directory ",
		file:                          "cannot make the log directory ",
		exposed:                       "try: chmod go-w " + exposed,
		locked:                        "cannot write to the log directory ",
		filepath.Join(locked, "logs"): "cannot make the log directory ",
	} {
		if runtime.GOOS == "windows" && dir != file || os.Geteuid() == 0 && strings.HasPrefix(dir, locked) {
			continue // modes do not restrict this user
		}
		err := (&rawlog.Store{Dir: dir}).Check()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
}

func TestCreateRestoresRemovedDirectory(t *testing.T) {
	store := newStore(t)
	if err := store.Check(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(store.Dir); err != nil {
		t.Fatal(err)
	}
	log := store.Create(rawlog.Meta{Exec: "e1"})
	log.Write(rawlog.Stdout, []byte("here again"))
	log.Close()
	wantFile(t, log.Path(), "here again")
}

func TestConcurrentWriteFinishClose(t *testing.T) {
	const writes = 2000
	log := newStore(t).Create(rawlog.Meta{Exec: "e1"})
	halfway := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for i := range writes {
			if i == writes/2 {
				close(halfway)
			}
			log.Write(rawlog.Stdout, []byte("line\n"))
		}
	})
	for range 2 {
		group.Go(func() {
			<-halfway
			log.Finish(rawlog.End{Status: "exited"})
			if s := log.Stats(); s.Bytes != 5*s.Lines || s.Lost != 0 {
				t.Errorf("inconsistent stats: %+v", s)
			}
			log.Close()
		})
	}
	group.Wait()
	log.Write(rawlog.Stdout, []byte("too late"))
	s := log.Stats()
	if s.Bytes < 5*writes/2 || !s.Complete {
		t.Errorf("stats %+v", s)
	}
	wantFile(t, log.Path(), strings.Repeat("line\n", int(s.Lines)))
	if x := readIndex(t, log.Path()); x.Totals == nil || x.Totals.Bytes != s.Bytes {
		t.Errorf("totals %+v, stats %+v", x.Totals, s)
	}
}

// All output is in the file when a server is killed.
func TestKilledServerLosesNoOutput(t *testing.T) {
	const dir = "RAWLOG_TEST_DIR"
	if d := os.Getenv(dir); d != "" {
		log := (&rawlog.Store{Dir: d}).Create(rawlog.Meta{Exec: "e1", Cmd: "make"})
		log.Write(rawlog.Stdout, []byte("last words"))
		self, _ := os.FindProcess(os.Getpid())
		self.Kill()
		select {}
	}
	store := newStore(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledServerLosesNoOutput$")
	cmd.Env = append(os.Environ(), dir+"="+store.Dir)
	if err := cmd.Run(); err == nil {
		t.Fatal("the process was not killed")
	}
	path := filepath.Join(store.Dir, "e1.log")
	wantFile(t, path, "last words")
	if x := readIndex(t, path); x.Cmd != "make" || x.End != nil || x.Totals != nil {
		t.Errorf("index %+v", x)
	}
}

func TestDiskErrorIsLoggedOnce(t *testing.T) {
	var logged bytes.Buffer
	store := newStore(t)
	store.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	if err := os.MkdirAll(filepath.Join(store.Dir, "e1.log"), 0o700); err != nil {
		t.Fatal(err)
	}
	log := store.Create(rawlog.Meta{Exec: "e1"})
	for range 3 {
		log.Write(rawlog.Stdout, []byte("lost"))
	}
	log.Close()
	if n := strings.Count(logged.String(), "exec=e1"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &logged)
	}
}

// BenchmarkShortRun measures the log of a run that prints five bytes.
// BenchmarkWriteFile measures one file on the same disk, for comparison.
func BenchmarkShortRun(b *testing.B) {
	store := newStore(b)
	for i := 0; b.Loop(); i++ {
		log := store.Create(rawlog.Meta{Exec: fmt.Sprint(i), Cmd: "echo five"})
		log.Write(rawlog.Stdout, []byte("five\n"))
		log.Finish(rawlog.End{Status: "exited"})
		log.Close()
	}
}

func BenchmarkWriteFile(b *testing.B) {
	dir := b.TempDir()
	for i := 0; b.Loop(); i++ {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("five\n"), 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBulk(b *testing.B) {
	log := (&rawlog.Store{Dir: b.TempDir(), MaxRun: 1 << 30}).Create(rawlog.Meta{Exec: "e1"})
	defer log.Close()
	p := bytes.Repeat([]byte("a line of some forty bytes of ordinary text\n"), 1500)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		log.Write(rawlog.Stdout, p)
	}
}
