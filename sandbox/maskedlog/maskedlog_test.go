package maskedlog_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
	"github.com/warmbox/warmbox/sandbox/maskedlog"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/redact"
)

// The secrets are concatenated, so that scanners of repositories do not report them.
const (
	token   = "ghp" + "_0123456789abcdefghijABCDEFGHIJ012345"
	setting = "a-configured-value"
)

// key returns a private key of so many lines.
func key(lines int) string {
	var b strings.Builder
	b.WriteString("-----BEGIN RSA " + "PRIVATE KEY-----\n")
	for i := range lines {
		fmt.Fprintf(&b, "KEYLINE%057d\n", i)
	}
	return b.String() + "-----END RSA " + "PRIVATE KEY-----\n"
}

// logOf returns a log of texts. The first letter of each names its stream.
func logOf(t *testing.T, printed ...string) *rawlog.Reader {
	t.Helper()
	texts := make(chan string, len(printed))
	for _, p := range printed {
		texts <- p
	}
	close(texts)
	return logOfAll(t, texts)
}

// logOfAll is logOf for texts that are made one by one.
func logOfAll(t *testing.T, printed <-chan string) *rawlog.Reader {
	t.Helper()
	store := &rawlog.Store{Dir: t.TempDir(), MaxRun: 2 << 30}
	log := store.Create(rawlog.Meta{Exec: "e1"})
	for p := range printed {
		log.Write(rawlog.Stream(p[0]), []byte(p[1:]))
	}
	log.Close()
	r, err := store.Open("e1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// page reads a page with its secrets masked.
func page(t testing.TB, log *rawlog.Reader, q maskedlog.Query) rawlog.Page {
	t.Helper()
	p, err := maskedlog.Read(t.Context(), log, q, secrets())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pageText renders a page, a line each.
func pageText(p rawlog.Page) string {
	var b strings.Builder
	for _, l := range p.Lines {
		fmt.Fprintf(&b, "%d %v +%d %s -%d\n", l.Number, l.Match, l.Skipped, l.Text, l.Omitted)
	}
	return b.String()
}

// masked reads a page with its secrets masked and renders it.
func masked(t testing.TB, log *rawlog.Reader, q maskedlog.Query) string {
	t.Helper()
	return pageText(page(t, log, q))
}

// The size of a page as the tool logs has it.
const (
	pageLines = 200
	pageBytes = 16_000
)

func secrets() *redact.Redactor { return &redact.Redactor{Values: []string{setting}} }

func TestNoPageShowsPartOfAKey(t *testing.T) {
	plain := strings.Repeat("nothing of interest\n", 5000)
	log := logOf(t, "o"+plain, "o"+key(180), "o"+plain)
	for from := int64(4990); from < 5200; from++ {
		for _, lines := range []int{1, 7, 500} {
			text := masked(t, log, maskedlog.Query{From: from, Most: lines, Bytes: pageBytes})
			if strings.Contains(text, "KEYLINE") || strings.Contains(text, "PRIVATE") {
				t.Fatalf("%d lines from %d on:\n%s", lines, from, text)
			}
		}
	}
	for pattern, matches := range map[string]int{`KEYLINE0*7?7$`: 0, `KEYLINE`: 0, `^‹private key›$`: 182, `private`: 182, `^-`: 0} {
		text := masked(t, log, maskedlog.Query{From: 1, Most: 300, Bytes: pageBytes, Match: regexp.MustCompile(pattern)})
		if strings.Contains(text, "KEYLINE") || strings.Count(text, "\n") != matches {
			t.Errorf("%s: %q", pattern, text)
		}
	}
}

func TestSecretInterruptedByTheOtherStreamIsMasked(t *testing.T) {
	var printed []string
	for i, c := range token + " then " + setting {
		printed = append(printed, "o"+string(c))
		if i%7 == 3 {
			printed = append(printed, "ewarn\n")
		}
	}
	for line := range strings.Lines(key(50)) {
		printed = append(printed, "e"+line, "obeat\n")
	}
	log := logOf(t, append(printed, "o\n")...)
	for _, stream := range []rawlog.Stream{0, rawlog.Stdout, rawlog.Stderr} {
		text := masked(t, log, maskedlog.Query{From: 1, Most: 1000, Bytes: pageBytes, Stream: stream})
		for _, part := range []string{token[:8], token[20:24], "configured", "KEYLINE"} {
			if strings.Contains(text, part) {
				t.Errorf("stream %q shows %s:\n%.500s", stream, part, text)
			}
		}
		if stream != rawlog.Stdout && strings.Count(text, "warn") != 9 || stream == rawlog.Stdout && !strings.Contains(text, " then ") {
			t.Errorf("stream %q lacks what is no secret:\n%.500s", stream, text)
		}
	}
}

// A line that is too long for a page is cut, possibly within a secret.
func TestSecretAtTheCutOfALineIsMasked(t *testing.T) {
	for pad := range 80 {
		long := strings.Repeat("x ", pageBytes/2-pad) + token + strings.Repeat(" y", 5000)
		log := logOf(t, "oone\n"+long+"\n")
		for _, q := range []maskedlog.Query{
			{From: 2, Most: 5, Bytes: pageBytes},
			{Most: 1, Bytes: pageBytes - pad},
			{From: 1, Most: 5, Bytes: pageBytes, Match: regexp.MustCompile("x ‹github token› y")},
			{From: 1, Most: 5, Bytes: pageBytes, Match: regexp.MustCompile(" y y")},
		} {
			if text := masked(t, log, q); strings.Contains(text, token[:6]) || strings.Contains(text, token[30:]) || len(text) < matchBytesShown {
				t.Fatalf("%d, %+v: %.50q … %q", pad, q, text, text[max(0, len(text)-100):])
			}
		}
	}
}

// matchBytesShown is less than a page has of a long line.
const matchBytesShown = 1000

// A search finds exactly the lines whose masked form its pattern matches, so a caller
// cannot guess a secret by searching.
func TestSearchMatchesMaskedLines(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	words := []string{"deploy ", "key ", setting, token, setting[:9], setting[9:], "error: ", "\n", "\r\n", "‹secret›", "postgres://a:hunter22@db ", "x", "\x1b[1m", "漢"}
	var printed []string
	for range 4000 {
		p := string("oe"[r.IntN(2)])
		for range r.IntN(4) {
			p += words[r.IntN(len(words))]
		}
		printed = append(printed, p)
	}
	log := logOf(t, printed...)
	for _, pattern := range []string{
		"deploy key a-conf", "deploy key [a-z]", "configured", setting, token[:7], "ghp", "hunter", "key .*-value", "[0-9]", "^x*$", "^.{0,3}$", "[^x]$",
		"secret", "‹secret›", "‹", "t›", "key ‹s", "github", "(?i)DEPLOY KEY", "deploy|hunter", "(deploy )+", "a:.*@", "›x", "(?:deploy ){2}", "(?i)SECRET", "deploy.*hunter", "(?i)K", "x|[q]", "db $", "漢", `\x{fffd}`, "e", "",
	} {
		re := regexp.MustCompile(pattern)
		for _, stream := range []rawlog.Stream{0, rawlog.Stdout, rawlog.Stderr} {
			all := page(t, log, maskedlog.Query{From: 1, Most: 1 << 20, Bytes: 1 << 30, Stream: stream})
			var want []int64
			for _, l := range all.Lines {
				if re.Match(bytes.TrimSuffix(l.Text, []byte("\r"))) {
					want = append(want, l.Number)
				}
			}
			for _, context := range []int{0, 2} {
				p := page(t, log, maskedlog.Query{From: 1, Most: 1 << 20, Bytes: 1 << 30, Stream: stream, Match: re, Context: context})
				var got []int64
				for _, l := range p.Lines {
					if l.Match {
						got = append(got, l.Number)
					}
				}
				if !slices.Equal(got, want) || p.Matches != len(want) || p.Next != log.Lines()+1 {
					t.Errorf("%q of %q with %d around: %d lines, want %d, next %d", pattern, stream, context, len(got), len(want), p.Next)
				}
			}
			last := page(t, log, maskedlog.Query{Most: 7, Bytes: 1 << 30, Stream: stream, Match: re})
			first := page(t, log, maskedlog.Query{From: 1, Most: 7, Bytes: 1 << 30, Stream: stream, Match: re})
			if n := min(7, len(want)); last.Matches != n || first.Matches != n ||
				n > 0 && (last.Lines[0].Number != want[len(want)-n] || first.Lines[n-1].Number != want[n-1]) ||
				len(want) > 7 && first.Next != want[7] {
				t.Errorf("%q of %q: the first %d, the last %d, next %d", pattern, stream, first.Matches, last.Matches, first.Next)
			}
		}
	}
}

func TestLogWithoutSecretsIsUnchanged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var printed []string
	for range 3000 {
		p := []byte{"oe"[r.IntN(2)]}
		for range r.IntN(60) {
			p = append(p, "ab c\n漢"[r.IntN(8)])
		}
		printed = append(printed, string(p))
	}
	log := logOf(t, printed...)
	for range 300 {
		q := maskedlog.Query{From: 1 + r.Int64N(log.Lines()+5), Most: 1 + r.IntN(300), Bytes: 1 + r.IntN(pageBytes),
			Stream: []rawlog.Stream{0, rawlog.Stdout, rawlog.Stderr}[r.IntN(3)]}
		if r.IntN(2) == 0 {
			q.Match, q.Context = regexp.MustCompile("a+b"), r.IntN(3)
		}
		page, err := log.Read(t.Context(), rawlog.Query{From: q.From, Most: q.Most, Bytes: q.Bytes, Stream: q.Stream, Match: q.Match, Context: q.Context})
		if err != nil {
			t.Fatal(err)
		}
		if want, got := pageText(page), masked(t, log, q); got != want {
			t.Fatalf("%+v:\n%q\nwant\n%q", q, got, want)
		}
	}
}

// gigabyte returns a store with one log of that size, and a range in its middle.
func gigabyte(t testing.TB) (*rawlog.Store, maskedlog.Query) {
	block := bytes.Repeat([]byte("a line of some output, as a build prints it\n"), 24_000)
	store := &rawlog.Store{Dir: t.TempDir(), MaxRun: 2 << 30}
	log := store.Create(rawlog.Meta{Exec: "e1"})
	lines := 0
	for written := 0; written < 1<<30; written += len(block) {
		log.Write(rawlog.Stdout, block)
		lines += 24_000
	}
	log.Close()
	return store, maskedlog.Query{From: int64(lines / 2), Most: pageLines, Bytes: pageBytes}
}

// TestLongLineTakesBoundedMemory: a line is searched to its end, and its parts are read, in
// memory that does not grow with the line.
func TestLongLineTakesBoundedMemory(t *testing.T) {
	size := weekly.Or(64<<20, 1<<30)
	block := bytes.Repeat([]byte("a word and one more "), 50_000)
	printed := make(chan string)
	var want int64
	go func() {
		defer close(printed)
		for ; want < int64(size); want += int64(len(block)) {
			printed <- "o" + string(block)
		}
		printed <- "oNEEDLE " + token + "\nnext\n"
	}()
	log := logOfAll(t, printed)
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() { peak <- peakHeap(stop) }()
	for _, stream := range []rawlog.Stream{0, rawlog.Stdout} {
		for pattern, matches := range map[string]int{"NEEDEL": 0, "NEEDLE": 1} {
			q := maskedlog.Query{From: 1, Most: 1, Bytes: pageBytes, Stream: stream, Match: regexp.MustCompile(pattern), FromByte: want - 8<<20, CountFor: time.Minute}
			if matches == 0 {
				q.FromByte = 0
			}
			p := page(t, log, q)
			if p.Total != matches || !p.Searched || !p.Counted || matches == 1 && !strings.HasSuffix(string(p.Lines[0].Text), "NEEDLE ‹github token›") {
				t.Errorf("%s: %d matches: %s", pattern, p.Total, pageText(p))
			}
		}
		p := page(t, log, maskedlog.Query{From: 1, Most: 1, Bytes: 50, Stream: stream, FromByte: want + 15})
		if got := string(p.Lines[0].Text); got != "‹github token›" {
			t.Errorf("from the middle of a secret on: %q", got)
		}
	}
	close(stop)
	if n := <-peak; n > 24<<20 {
		t.Errorf("%d MB of heap for a line of %d MB", n>>20, size>>20)
	} else {
		t.Logf("%d MB of heap for a line of %d MB", n>>20, size>>20)
	}
}

// peakHeap returns the largest size of the heap until stop is closed.
func peakHeap(stop chan struct{}) (peak uint64) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		metrics.Read(heap)
		peak = max(peak, heap[0].Value.Uint64())
		select {
		case <-tick.C:
		case <-stop:
			return peak
		}
	}
}

// TestSecretsOfALongLineAreMasked: wherever a part of the line begins or ends.
func TestSecretsOfALongLineAreMasked(t *testing.T) {
	var b strings.Builder
	for b.Len() < 600_000 {
		b.WriteString("plain words, " + setting + " and " + token + "; ")
	}
	log := logOf(t, "o"+b.String()+"\n")
	leaks := func(what, text string) {
		t.Helper()
		plain := strings.NewReplacer("plain words, ", "", " and ", "", "; ", "", "‹secret›", "", "‹github token›", "").Replace(text)
		for _, part := range []string{"config", "value", "ghp", "0123", "ABC", "a-c"} {
			if strings.Contains(plain, part) {
				t.Errorf("%s: %.200q", what, plain)
			}
		}
	}
	for from := int64(299_000); from < 299_120; from++ {
		p := page(t, log, maskedlog.Query{From: 1, Most: 1, Bytes: 200 + int(from%7), FromByte: from})
		leaks(fmt.Sprintf("from %d", from), string(p.Lines[0].Text))
	}
	for pattern, want := range map[string]bool{
		setting: false, token[:7]: false, "a-conf": false, "[0-9]": false, "^plain.*; $": true,
		`^(plain words, ‹secret› and ‹github token›; )+$`: true,
	} {
		p := page(t, log, maskedlog.Query{From: 1, Most: 1, Bytes: pageBytes, Match: regexp.MustCompile(pattern)})
		if (p.Matches == 1) != want {
			t.Errorf("%s: %d matches", pattern, p.Matches)
		}
		if want {
			leaks(pattern, string(p.Lines[0].Text))
		}
	}
	// Of a match behind many masks, the part around it is shown.
	log = logOf(t, "o"+b.String()+"NEEDLE here\n")
	p := page(t, log, maskedlog.Query{From: 1, Most: 1, Bytes: pageBytes, Match: regexp.MustCompile("NEEDLE")})
	if text := string(p.Lines[0].Text); !strings.HasSuffix(text, "NEEDLE here") || p.Lines[0].Skipped == 0 {
		t.Errorf("%d: %q", p.Lines[0].Skipped, text)
	}
}

// TestRangeReadsBoundedBytes: reading a range reads as little of a log of a gigabyte as
// of a small one.
func TestRangeReadsBoundedBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes a gigabyte")
	}
	store, middle := gigabyte(t)
	before := boxtest.ProcessIO(t, "rchar")
	r, err := store.Open("e1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text := masked(t, r, middle)
	if strings.Count(text, "\n") != pageLines {
		t.Fatal(text)
	}
	n := boxtest.ProcessIO(t, "rchar") - before
	t.Logf("%d bytes", n)
	if n > 4<<20 {
		t.Errorf("%d bytes were read", n)
	}
}

// BenchmarkRangeOfAGigabyte should stay below 20 ms.
func BenchmarkRangeOfAGigabyte(b *testing.B) {
	store, middle := gigabyte(b)
	for b.Loop() {
		r, err := store.Open("e1")
		if err != nil {
			b.Fatal(err)
		}
		masked(b, r, middle)
		r.Close()
	}
}
