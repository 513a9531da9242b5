package rawlog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// filled returns the Reader of a run that printed these texts; those with a "!"
// in front, to standard error.
func filled(t testing.TB, prints ...string) *Reader {
	t.Helper()
	s := &Store{Dir: t.TempDir()}
	log := s.Create(Meta{Exec: "e1"})
	for _, p := range prints {
		if text, ok := strings.CutPrefix(p, "!"); ok {
			log.Write(Stderr, []byte(text))
		} else {
			log.Write(Stdout, []byte(p))
		}
	}
	log.Close()
	return opened(t, s, "e1")
}

func opened(t testing.TB, s *Store, exec string) *Reader {
	t.Helper()
	r, err := s.Open(exec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func read(t testing.TB, r *Reader, q Query) Page {
	t.Helper()
	q.Bytes = cmp.Or(q.Bytes, 16_000)
	p, err := r.Read(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// shown renders a page: "3:match 4-context >9".
func shown(p Page) string {
	var b strings.Builder
	for _, l := range p.Lines {
		mark := "-"
		if l.Match {
			mark = ":"
		}
		fmt.Fprintf(&b, "%d%s%s ", l.Number, mark, l.Text)
		if l.Skipped+l.Omitted > 0 {
			fmt.Fprintf(&b, "(%d,%d) ", l.Skipped, l.Omitted)
		}
	}
	return fmt.Sprintf("%s>%d", &b, p.Next)
}

// "$" matches before the CR LF of a terminal too.
func TestSearchMatchesEndOfTerminalLines(t *testing.T) {
	r := filled(t, "ready\r\nready or not\r\nready\n")
	if got := shown(read(t, r, Query{From: 1, Most: 9, Match: regexp.MustCompile("^ready$")})); got != "1:ready\r 3:ready >4" {
		t.Errorf("%q", got)
	}
}

func TestReadPages(t *testing.T) {
	r := filled(t, "a\nb\n", "!oops\n", "c\nd", "!what\n", "e\n\nlast")
	for _, tt := range []struct {
		q    Query
		want string
	}{
		{Query{From: 1, Most: 2}, "1:a 2:b >3"},
		{Query{From: 3, Most: 2}, "3:oops 4:c >5"},
		{Query{From: 7, Most: 9}, "7: 8:last >9"},
		{Query{From: 9, Most: 9}, ">9"},
		{Query{From: 99, Most: 9}, ">99"},
		{Query{Most: 3}, "6:e 7: 8:last >9"},
		{Query{Most: 99}, "1:a 2:b 3:oops 4:c 5:dwhat 6:e 7: 8:last >9"},
		{Query{From: 1, Most: 99, Stream: Stderr}, "3:oops 5:what >9"},
		{Query{Most: 1, Stream: Stderr}, "5:what >9"},
		{Query{From: 3, Most: 3, Stream: Stdout}, "4:c 5:d 6:e >7"},
		{Query{From: 1, Most: 9, Match: regexp.MustCompile(`^[ae]`)}, "1:a 6:e >9"},
		{Query{From: 1, Most: 1, Match: regexp.MustCompile(`^[ae]`)}, "1:a >6"},
		{Query{Most: 1, Match: regexp.MustCompile(`^[abc]$`), Context: 1}, "3-oops 4:c 5-dwhat >9"},
		{Query{From: 1, Most: 9, Match: regexp.MustCompile(`o`), Context: 1}, "2-b 3:oops 4-c >9"},
		{Query{From: 1, Most: 9, Match: regexp.MustCompile(`^[ace]$`), Context: 1}, "1:a 2-b 3-oops 4:c 5-dwhat 6:e 7- >9"},
		{Query{From: 1, Most: 9, Match: regexp.MustCompile(`nothing`)}, ">9"},
		{Query{From: 1, Most: 9, Bytes: 3 * (lineCost + 1)}, "1:a 2:b >3"},
		{Query{Most: 9, Bytes: 3 * (lineCost + 1)}, "7: 8:last >9"},
		{Query{From: 3, Most: 1, Bytes: lineCost + 2}, "3:oo (0,2) >4"},
	} {
		if got := shown(read(t, r, tt.q)); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.q, got, tt.want)
		}
	}
	if r.Lines() != 8 || r.Bytes() != int64(len("a\nb\noops\nc\ndwhat\ne\n\nlast")) {
		t.Errorf("%d lines, %d bytes", r.Lines(), r.Bytes())
	}
}

// A line of megabytes is cut to the limit, around the match of a search.
func TestReadCutsHugeLines(t *testing.T) {
	r := filled(t, "first\n", strings.Repeat("é", 1<<17)[:1<<18-1], strings.Repeat("x", 3<<20), "\nlast\n")
	p := read(t, r, Query{From: 2, Most: 2, Bytes: 100})
	if l := p.Lines[0]; len(p.Lines) != 1 || len(l.Text)+int(l.Omitted) != 3<<20+1<<18-1 || len(l.Text) > 100 || p.Next != 3 {
		t.Errorf("%d lines, %d of %d bytes, next %d", len(p.Lines), len(l.Text), l.Omitted, p.Next)
	}
	if got := shown(read(t, r, Query{From: 3, Most: 2})); got != "3:last >4" {
		t.Error(got)
	}
	r = filled(t, strings.Repeat("x", 50_000)+"here"+strings.Repeat("y", 50_000)+"\n")
	l := read(t, r, Query{From: 1, Most: 1, Match: regexp.MustCompile("here")}).Lines[0]
	if !bytes.Contains(l.Text, []byte("here")) || int(l.Skipped+l.Omitted)+len(l.Text) != 100_004 || len(l.Text) > matchBytes {
		t.Errorf("%d bytes, %d before, %d after: %.50q", len(l.Text), l.Skipped, l.Omitted, l.Text)
	}
}

// For any output and any state of the index, a page has the lines that a simple
// loop finds.
func TestReadMatchesSimpleLoop(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		s := &Store{Dir: t.TempDir()}
		log := s.Create(Meta{Exec: "e1"})
		if rnd.IntN(2) == 0 {
			log.index.fine = maxFine // coarse from the start
		}
		for range rnd.IntN(40) {
			p := bytes.Repeat([]byte("some words\nx\n\n"), 1+rnd.IntN(20_000))
			log.Write(Stdout, p[rnd.IntN(12):len(p)-rnd.IntN(12)])
		}
		log.Close()
		if rnd.IntN(3) == 0 {
			cutIndex(t, s, rnd)
		}
		text, err := os.ReadFile(log.Path())
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Split(bytes.TrimSuffix(text, lineFeed), lineFeed)
		if len(text) == 0 {
			lines = nil
		}
		r := opened(t, s, "e1")
		if r.Lines() != int64(len(lines)) {
			t.Fatalf("%d lines, want %d", r.Lines(), len(lines))
		}
		for range 20 {
			from, most := 1+rnd.IntN(len(lines)+2), 1+rnd.IntN(50)
			wantLines(t, read(t, r, Query{From: int64(from), Most: most}), lines, from, most)
			wantLines(t, read(t, r, Query{Most: most}), lines, max(1, len(lines)-most+1), most)
		}
	}
}

func cutIndex(t *testing.T, s *Store, rnd *rand.Rand) {
	t.Helper()
	info, err := os.Stat(s.base("e1") + indexExt)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(s.base("e1")+indexExt, rnd.Int64N(info.Size())); err != nil {
		t.Fatal(err)
	}
}

func wantLines(t *testing.T, p Page, lines [][]byte, from, most int) {
	t.Helper()
	want := lines[min(from-1, len(lines)):min(from-1+most, len(lines))]
	if !slices.EqualFunc(p.Lines, want, func(l Line, w []byte) bool { return bytes.Equal(l.Text, w) }) {
		t.Fatalf("from %d, at most %d: %d lines, want %d", from, most, len(p.Lines), len(want))
	}
	for i, l := range p.Lines {
		if l.Number != int64(from+i) {
			t.Fatalf("line %d is number %d", from+i, l.Number)
		}
	}
	if next := int64(from + len(want)); p.Next != next {
		t.Fatalf("next is %d, want %d", p.Next, next)
	}
}

func TestReadIncompleteLineAgain(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	log := s.Create(Meta{Exec: "e1"})
	defer log.Close()
	next := int64(1)
	for i, tt := range []struct{ print, want string }{
		{"one\ntw", "1:one 2:tw >2"},
		{"o\n", "2:two >3"},
		{"", ">3"},
		{"!three\n", "3:!three >4"},
	} {
		log.Write(Stdout, []byte(tt.print))
		r, err := s.Open("e1")
		if err != nil {
			t.Fatal(err)
		}
		p := read(t, r, Query{From: next, Most: 10})
		r.Close()
		if got := shown(p); got != tt.want {
			t.Errorf("read %d: %s, want %s", i, got, tt.want)
		}
		next = p.Next
	}
}

// A server can crash after any byte of either file.
func TestReadAfterCrashAtAnyByte(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	log := s.Create(Meta{Exec: "e1"})
	log.Write(Stdout, []byte("out\n"))
	log.Write(Stderr, []byte("err\nmore\n"))
	log.Write(Stdout, []byte("end"))
	log.Finish(End{Status: "exited"})
	log.Close()
	index, err := os.ReadFile(s.base("e1") + indexExt)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range index {
		if err := os.WriteFile(s.base("e1")+indexExt, index[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if got := shown(read(t, opened(t, s, "e1"), Query{From: 1, Most: 9})); got != "1:out 2:err 3:more 4:end >5" {
			t.Fatalf("index cut at %d: %s", cut, got)
		}
	}
	text := []byte("out\nerr\nmore\nend")
	for cut := len(text); cut >= 0; cut-- {
		err := errors.Join(os.WriteFile(s.base("e1")+indexExt, index, 0o600), os.Truncate(log.Path(), int64(cut)))
		if err != nil {
			t.Fatal(err)
		}
		p := read(t, opened(t, s, "e1"), Query{From: 1, Most: 9})
		var got [][]byte
		for _, l := range p.Lines {
			got = append(got, l.Text)
		}
		if want := bytes.TrimSuffix(text[:cut], lineFeed); !bytes.Equal(bytes.Join(got, lineFeed), want) {
			t.Fatalf("log cut at %d: %q", cut, got)
		}
	}
}

// FuzzRead reads logs with any index: a damaged one must neither break the reader
// nor make it loop forever.
func FuzzRead(f *testing.F) {
	f.Add("a\nb\noops\nc", "h {}\no 4 2 0\ne 5 1 0\no 1 0 0\n", int64(2), byte('e'))
	f.Add("a\nb\n", "h {}\no 4 0 0\n", int64(1), byte(0))
	f.Add("a\nb\nc", "h {}\no 1 1 0\ne 0 0 0\ne 2 0 0\nm 2 2 0\n", int64(0), byte('o'))
	f.Add("a\nb\nc", "h {}\no 4 2 0\ng {\"bytes\":9,\"lines\":2}\no 1 0 0\n", int64(1), byte(0))
	f.Add("a\nb\nc", "h {}\no 4 2 0\nx {}\no 1 0", int64(1), byte(0))
	f.Fuzz(func(t *testing.T, text, index string, from int64, stream byte) {
		s := &Store{Dir: t.TempDir()}
		err := errors.Join(os.WriteFile(s.base("e1")+logExt, []byte(text), 0o600), os.WriteFile(s.base("e1")+indexExt, []byte(index), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		r := opened(t, s, "e1")
		for _, match := range []*regexp.Regexp{nil, regexp.MustCompile("[a-c]")} {
			p := read(t, r, Query{From: from, Most: 5, Bytes: 200, Stream: Stream(stream), Match: match, Context: 1})
			if len(p.Lines) > 20 || p.Next < 1 {
				t.Errorf("%d lines, next %d", len(p.Lines), p.Next)
			}
		}
		log, err := s.Reopen("e1")
		if err != nil {
			return
		}
		log.Write(Stdout, []byte("more\n"))
		log.Close()
		x, err := s.Head("e1")
		if size := int64(len(text)) + 5; err != nil || x.Totals == nil || x.Totals.Kept != size || x.covered() != size {
			t.Errorf("reopened: %+v, %v", x, err)
		}
	})
}

func TestOpenRefusesUnknownNamesAndLinks(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	for _, exec := range []string{"", "e1", "../e1", "e1.log", strings.Repeat("e", 200)} {
		if _, err := s.Open(exec); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%.10q: %v", exec, err)
		}
		if _, err := s.Head(exec); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%.10q: %v", exec, err)
		}
	}
	outside := filepath.Join(t.TempDir(), "outside.log")
	if err := errors.Join(os.WriteFile(outside, []byte("secret"), 0o600), os.Symlink(outside, s.base("link")+logExt)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open("link"); err == nil {
		t.Error("a symbolic link was followed")
	}
}

func TestSearchStopsWithContext(t *testing.T) {
	r := filled(t, strings.Repeat("line\n", 1<<20))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := r.Read(ctx, Query{From: 7, Most: 1, Bytes: 100, Match: regexp.MustCompile("none")})
	if err != nil || p.Searched || p.Next != 7 {
		t.Errorf("%+v, %v", p, err)
	}
	// The lines that were not searched come before those that were.
	p, err = r.Read(ctx, Query{Most: 1, Bytes: 100, Match: regexp.MustCompile("none")})
	if err != nil || p.Searched || p.Next != 1 {
		t.Errorf("from the end: %+v, %v", p, err)
	}
}
