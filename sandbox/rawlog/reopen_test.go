package rawlog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/warmbox/warmbox/sandbox/rawlog"
)

// crash returns a store with the log as it is if its writer dies now, with the index
// cut to a length, or not cut if that is negative.
func crash(t *testing.T, s *rawlog.Store, exec string, index int) *rawlog.Store {
	t.Helper()
	later := newStore(t)
	if err := os.MkdirAll(later.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, ext := range []string{".log", ".idx"} {
		text, err := os.ReadFile(filepath.Join(s.Dir, exec+ext))
		if err != nil {
			t.Fatal(err)
		}
		if ext == ".idx" && index >= 0 {
			text = text[:index]
		}
		if err := os.WriteFile(filepath.Join(later.Dir, exec+ext), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return later
}

func reopen(t *testing.T, s *rawlog.Store, exec string) *rawlog.Log {
	t.Helper()
	l, err := s.Reopen(exec)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A log that is reopened twice, once with a gap, is one log for its readers.
func TestReopenContinuesLog(t *testing.T) {
	s := newStore(t)
	log := s.Create(rawlog.Meta{Exec: "e1", Box: "b1", Owner: "me", Cmd: "make", Note: "a note"})
	log.Write(rawlog.Stdout, []byte("one\ntw"))
	s = crash(t, s, "e1", -1)
	log.Close()

	log = reopen(t, s, "e1")
	want := rawlog.Stats{Bytes: 6, Lines: 2, Kept: 6, Complete: true}
	if diff := cmp.Diff(want, log.Stats()); diff != "" {
		t.Errorf("reopened (-want +got):\n%s", diff)
	}
	if _, err := s.Reopen("e1"); err == nil {
		t.Error("reopened a log that is being written")
	}
	log.Write(rawlog.Stderr, []byte("o\n"))
	for _, bad := range [][2]int64{{8, 2}, {7, 2}, {20, 1}, {20, 15}, {-1, 0}} {
		if log.Skip(bad[0], bad[1], "no") {
			t.Errorf("skipped to %d, %d", bad[0], bad[1])
		}
	}
	if !log.Skip(108, 12, "the box had no room") {
		t.Error("did not skip")
	}
	log.Write(rawlog.Stdout, []byte("rest\nlast\n"))
	log.Detach()
	log.Write(rawlog.Stdout, []byte("no more"))

	log = reopen(t, s, "e1")
	want = rawlog.Stats{Bytes: 118, Lines: 14, Kept: 18, Lost: 100, Reason: "the box had no room"}
	if diff := cmp.Diff(want, log.Stats()); diff != "" {
		t.Errorf("reopened again (-want +got):\n%s", diff)
	}
	log.Finish(rawlog.End{Status: "exited"})
	log.Close()
	if _, err := s.Reopen("e1"); err == nil || !strings.Contains(err.Error(), "the run is over") {
		t.Errorf("reopen a run that is over: %v", err)
	}
	wantFile(t, log.Path(), "one\ntwo\nrest\nlast\n")
	x := readIndex(t, log.Path())
	if diff := cmp.Diff([]rawlog.Gap{{Off: 8, Bytes: 100, Lines: 10, Reason: "the box had no room"}}, x.Gaps); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&want, x.Totals); diff != "" || x.Note != "a note" || x.Owner != "me" {
		t.Errorf("%+v, totals (-want +got):\n%s", x.Meta, diff)
	}
	var streams string
	for _, s := range x.Spans {
		streams += string(s.Stream)
	}
	if streams != "meo" {
		t.Errorf("spans %v", x.Spans)
	}
	r, err := s.Open("e1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	page, err := r.Read(t.Context(), rawlog.Query{From: 1, Most: 10, Bytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var lost []int64
	for _, l := range page.Lines {
		lost = append(lost, l.Lost)
	}
	if diff := cmp.Diff([]int64{0, 0, 100, 0}, lost); diff != "" {
		t.Errorf("lost before lines (-want +got):\n%s", diff)
	}
}

// A log can be reopened whatever byte of the index its writer came to. Its counts
// are those of the file.
func TestReopenAfterCrashAtAnyByte(t *testing.T) {
	s := newStore(t)
	log := s.Create(rawlog.Meta{Exec: "e1"})
	head, err := os.ReadFile(filepath.Join(s.Dir, "e1.idx"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		log.Write([]rawlog.Stream{rawlog.Stdout, rawlog.Stderr}[i%2], []byte("line\npart"))
	}
	log.Finish(rawlog.End{Status: "killed", Took: time.Second})
	log.Close()
	all, err := os.ReadFile(filepath.Join(s.Dir, "e1.idx"))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(all) + 1 {
		later := crash(t, s, "e1", cut)
		log, err := later.Reopen("e1")
		if (err == nil) != (cut >= len(head) && cut < len(all)) {
			t.Fatalf("cut at %d of %d: %v", cut, len(all), err)
		}
		if err != nil {
			continue
		}
		log.Write(rawlog.Stdout, []byte("x\n"))
		log.Finish(rawlog.End{Status: "exited"})
		log.Close()
		x := readIndex(t, log.Path())
		last := x.Spans[len(x.Spans)-1]
		if last.Off+last.Len != 56 || last.Line+last.Feeds != 7 || x.End == nil || x.Totals.Bytes != 56 || x.Totals.Lines != 7 {
			t.Fatalf("cut at %d: %+v, %+v, %+v", cut, x.Spans, x.End, x.Totals)
		}
	}
}

// A log that is full when it is reopened continues to count.
func TestReopenFullLogCounts(t *testing.T) {
	s := newStore(t)
	log := s.Create(rawlog.Meta{Exec: "e1"})
	log.Write(rawlog.Stdout, []byte("123456789\n"))
	log.Detach()
	s.MaxRun = 8
	log = reopen(t, s, "e1")
	log.Skip(20, 2, "a gap")
	log.Write(rawlog.Stdout, []byte("x\n"))
	log.Skip(30, 3, "another")
	log.Close()
	if got := log.Stats(); got.Bytes != 30 || got.Kept != 10 || got.Lines != 3 || got.Complete {
		t.Errorf("%+v", got)
	}
	wantFile(t, log.Path(), "123456789\n")
	if x := readIndex(t, log.Path()); len(x.Gaps) != 1 {
		t.Errorf("%+v", x.Gaps)
	}
}

func TestReopenRefusesDamagedFiles(t *testing.T) {
	s := newStore(t)
	log := s.Create(rawlog.Meta{Exec: "e1"})
	log.Write(rawlog.Stdout, []byte("text"))
	log.Detach()
	for name, spoil := range map[string]func(dir string) error{
		"no log":     func(dir string) error { return os.Remove(dir + "/e1.log") },
		"no index":   func(dir string) error { return os.Remove(dir + "/e1.idx") },
		"short log":  func(dir string) error { return os.Truncate(dir+"/e1.log", 1) },
		"not a file": func(dir string) error { os.Remove(dir + "/e1.log"); return os.Mkdir(dir+"/e1.log", 0o700) },
		"a link": func(dir string) error {
			os.Rename(dir+"/e1.log", dir+"/other")
			return os.Symlink("other", dir+"/e1.log")
		},
		"damaged": func(dir string) error { return os.WriteFile(dir+"/e1.idx", []byte("h {}\ng {\"bytes\":-1}\n"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			later := crash(t, s, "e1", -1)
			if err := spoil(later.Dir); err != nil {
				t.Fatal(err)
			}
			if _, err := later.Reopen("e1"); err == nil {
				t.Error("reopened")
			}
		})
	}
	for _, name := range []string{"", "../e1", "e2"} {
		if _, err := s.Reopen(name); err == nil {
			t.Errorf("%q: reopened", name)
		}
	}
}
