package rawlog

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

// A line is searched to its end, however long it is and wherever the match lies.
func TestSearchFindsEveryByteOfALongLine(t *testing.T) {
	const size = 700_000
	line := bytes.Repeat([]byte("abc def "), size/8)
	for _, at := range []int{0, 1000, partBytes - 3, maxLine - 3, maxLine, 300_000, 3*partBytes - 1, size - 6} {
		text := bytes.Clone(line)
		copy(text[at:], "NEEDLE")
		r := filled(t, "first\n", string(text)+"\r\n", "last\n")
		p := read(t, r, Query{From: 1, Most: 9, Match: regexp.MustCompile("NEEDLE")})
		if len(p.Lines) != 1 || p.Matches != 1 || p.Next != 4 {
			t.Errorf("at %d: %d lines, next %d", at, len(p.Lines), p.Next)
			continue
		}
		l := p.Lines[0]
		if i := bytes.Index(l.Text, []byte("NEEDLE")); l.Number != 2 || int(l.Skipped)+i != at || int(l.Skipped+l.Omitted)+len(l.Text) != size+1 {
			t.Errorf("at %d: line %d from %d on, then %d: %.80q", at, l.Number, l.Skipped, l.Omitted, l.Text)
		}
		last := read(t, r, Query{Most: 1, Match: regexp.MustCompile("NEEDLE")})
		if len(last.Lines) != 1 || last.Lines[0].Number != 2 {
			t.Errorf("at %d: not found from the end", at)
		}
	}
}

// A search of a long line finds what a search of the whole text finds, whatever the pattern
// and the stream.
func TestSearchOfALongLineMatchesWholeText(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	words := []string{"a", "bb ", "é", "NEEDLE ", "x.", "\xff", "漢字 "}
	for range weekly.Or(1, 6) {
		var prints []string
		var all, other []byte
		for len(all) < maxLine+rnd.IntN(200_000) {
			var b strings.Builder
			for range rnd.IntN(20_000) {
				b.WriteString(words[rnd.IntN(len(words))])
			}
			all = append(all, b.String()...)
			if rnd.IntN(2) == 0 {
				prints = append(prints, b.String())
				continue
			}
			prints = append(prints, "!"+b.String())
			other = append(other, b.String()...)
		}
		r := filled(t, append(prints, "\n")...)
		for _, pattern := range []string{"NEEDLE", "^a", "^[^a]", "(x\\.){6}", "x$", " $", "^.*漢", "^.+(NEEDLE ){4}", `\bbb a`, "é\\x{fffd}é", "nothing", "^.{3}$", "(?i)needle x"} {
			from := rnd.IntN(len(all))
			wantFound(t, r, Query{Match: regexp.MustCompile(pattern)}, all, 0)
			wantFound(t, r, Query{Match: regexp.MustCompile(pattern), FromByte: int64(from)}, all, from)
			wantFound(t, r, Query{Match: regexp.MustCompile(pattern), Stream: Stderr}, other, 0)
		}
	}
}

// wantFound checks that a search from an offset of the first line on shows its first match
// there.
func wantFound(t *testing.T, r *Reader, q Query, text []byte, from int) {
	t.Helper()
	q.From, q.Most = 1, 1
	p := read(t, r, q)
	want := -1
	for _, found := range q.Match.FindAllIndex(text, -1) {
		if found[0] >= from {
			want = found[0]
			break
		}
	}
	// A match that overlaps an earlier one is found too if the search begins between them.
	if found := q.Match.FindIndex(text[from:]); from > 0 && want < 0 && found != nil && !strings.HasPrefix(q.Match.String(), "^") {
		return
	}
	if (len(p.Lines) == 1) != (want >= 0) {
		t.Errorf("%s from %d of %d bytes: %d lines, want a match at %d", q.Match, from, len(text), len(p.Lines), want)
		return
	}
	if want < 0 {
		return
	}
	l := p.Lines[0]
	if int(l.Skipped) > want || int(l.Skipped)+len(l.Text) < want || int(l.Skipped+l.Omitted)+len(l.Text) != len(text) {
		t.Errorf("%s from %d of %d bytes: %d to %d and %d, want around %d", q.Match, from, len(text), l.Skipped, int(l.Skipped)+len(l.Text), l.Omitted, want)
	}
	if !bytes.Equal(l.Text, text[l.Skipped:int(l.Skipped)+len(l.Text)]) {
		t.Errorf("%s from %d: another text", q.Match, from)
	}
}

// The rest of a long line can be read part by part.
func TestReadPartsOfALongLine(t *testing.T) {
	text := strings.Repeat("é漢z", 100_000)
	r := filled(t, text[:7], "!err", text[7:300_000], "!or", text[300_000:], "\nlast\n")
	for stream, want := range map[Stream]string{0: text[:7] + "err" + text[7:300_000] + "or" + text[300_000:], Stdout: text, Stderr: "error"} {
		var got []byte
		for {
			p := read(t, r, Query{From: 1, Most: 1, Bytes: 50_000, FromByte: int64(len(got)), Stream: stream})
			l := p.Lines[0]
			if int(l.Skipped) != len(got) {
				t.Fatalf("from %d, not %d", l.Skipped, len(got))
			}
			if got = append(got, l.Text...); l.Omitted == 0 {
				break
			}
		}
		if string(got) != want {
			t.Errorf("stream %q: %d bytes, want %d", stream, len(got), len(want))
		}
	}
	// The 7th byte begins a character, which the other stream interrupts.
	for from, want := range map[int64]string{
		1: "1-é漢z (0,599999) >2", 2: "1-漢z\xc3 (2,599998) >2", 600_004: "1-z (600004,0) >2", 600_005: "1- (600005,0) >2", 1 << 40: "1- (600005,0) >2",
	} {
		if got := shown(read(t, r, Query{From: 1, Most: 1, Bytes: lineCost + 5, FromByte: from})); strings.Replace(got, ":", "-", 1) != want {
			t.Errorf("from %d: %q, want %q", from, got, want)
		}
	}
}

// Matches are counted beyond the page.
func TestSearchCountsAllMatches(t *testing.T) {
	var b strings.Builder
	for i := range 30_000 {
		fmt.Fprintln(&b, i+1)
	}
	r := filled(t, b.String())
	for _, tt := range []struct {
		q              Query
		total, matches int
		next           int64
	}{
		{Query{From: 1, Most: 3}, 10_317, 3, 37},
		{Query{From: 37, Most: 3}, 10_314, 3, 67},
		{Query{From: 1, Most: 3, Context: 2}, 10_317, 3, 37},
		{Query{From: 1, Most: 30_000, Bytes: 100}, 10_317, 7, 70},
		{Query{Most: 3}, 10_317, 3, 30_001},
		{Query{From: 1, Most: 30_000, Bytes: 1 << 20}, 10_317, 10_317, 30_001},
	} {
		tt.q.Match, tt.q.CountFor = regexp.MustCompile("7"), time.Minute
		for _, hide := range []func([]Line) ([][]Hidden, error){nil, func(l []Line) ([][]Hidden, error) { return make([][]Hidden, len(l)), nil }} {
			tt.q.Hide = hide
			p := read(t, r, tt.q)
			if p.Total != tt.total || p.Matches != tt.matches || p.Next != tt.next || !p.Counted || !p.Searched {
				t.Errorf("%+v: %d of %d matches, counted %v, searched %v, next %d", tt.q, p.Matches, p.Total, p.Counted, p.Searched, p.Next)
			}
		}
		tt.q.CountFor = 0
		if p := read(t, r, tt.q); p.Matches != tt.matches || p.Total > tt.total || p.Counted != (p.Total == tt.total) {
			t.Errorf("without counting, %+v: %d of %d matches, counted %v", tt.q, p.Matches, p.Total, p.Counted)
		}
	}
}

// A search that is stopped within a long line says where to go on, and finds the match in the
// end.
func TestStoppedSearchOfALongLineContinues(t *testing.T) {
	r := filled(t, "first\n", strings.Repeat("abc def ", 500_000), "NEEDLE\n")
	q := Query{From: 2, Most: 9, Bytes: 16_000, Match: regexp.MustCompile("f NEEDLE$")}
	for calls := 1; ; calls++ {
		ctx, cancel := context.WithCancel(t.Context())
		left := 10
		q.Hide = func(lines []Line) ([][]Hidden, error) {
			if left--; left == 0 {
				cancel()
			}
			return make([][]Hidden, len(lines)), nil
		}
		p, err := r.Read(ctx, q)
		cancel()
		if err != nil || p.Next < 2 || calls > 20 {
			t.Fatalf("%+v, %v", p, err)
		}
		if p.Searched {
			if calls < 3 || p.Matches != 1 {
				t.Errorf("found %d after %d calls", p.Matches, calls)
			}
			break
		}
		if p.NextByte <= q.FromByte || p.Next != 2 {
			t.Fatalf("no progress: %+v after byte %d", p, q.FromByte)
		}
		q.FromByte = p.NextByte
	}
}
