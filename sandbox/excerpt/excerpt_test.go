package excerpt

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func keeperOf(limit int, writes ...string) *Keeper {
	k := &Keeper{Limit: limit}
	for _, w := range writes {
		k.Write([]byte(w))
	}
	return k
}

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %04d\n", i)
	}
	return b.String()
}

func TestCutShowsHeadAndTailWithinLimits(t *testing.T) {
	limits := Limits{Whole: 100, Cut: 80}
	for name, tt := range map[string]struct {
		out, err *Keeper
		want     Excerpt // of stdout
	}{
		"nothing": {keeperOf(100), keeperOf(100), Excerpt{}},
		"fits":    {keeperOf(100, "a\n", "b"), keeperOf(100), Excerpt{Text: "a\nb", Bytes: 3, Lines: 2}},
		"just fits with the other": {keeperOf(100, numbered(1, 5)), keeperOf(100, strings.Repeat("e", 50)),
			Excerpt{Text: numbered(1, 5), Bytes: 50, Lines: 5}},
		"head and tail on line borders": {keeperOf(100, numbered(1, 1000)), keeperOf(100), Excerpt{
			Text:  numbered(1, 2) + "[… 992 lines, 9,920 bytes left out …]\n" + numbered(995, 1000),
			Bytes: 10000, Lines: 1000, OmittedBytes: 9920, OmittedLines: 992, FirstOmitted: 3,
		}},
		"the small one is whole": {keeperOf(100, "only\n"), keeperOf(100, numbered(1, 1000)), Excerpt{Text: "only\n", Bytes: 5, Lines: 1}},
		"one long line": {keeperOf(100, strings.Repeat("x", 1000)), keeperOf(100), Excerpt{
			Text:  strings.Repeat("x", 20) + "\n[… 0 lines, 920 bytes left out …]\n" + strings.Repeat("x", 60),
			Bytes: 1000, Lines: 1, OmittedBytes: 920, FirstOmitted: 1,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := Cut(tt.out, tt.err, limits)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInertRemovesControlCharacters(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":          "plain\ttext\n",
		"a\r\nb\rc":              "a\nb␍c",
		"\x1b[31mred\x1b[0m":     "␛[31mred␛[0m",
		"bell\a nul\x00 del\x7f": "bell␇ nul␀ del␡",
		"grüße 日本 🎉":             "grüße 日本 🎉",
		"bad \xff\xfe":           "bad ��",
		"rtl \u202e x":           "rtl � x",
		"c1 \u009b31m":           "c1 �31m",
	} {
		if got := Inert([]byte(in)); got != want {
			t.Errorf("Inert(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzCut tests that the excerpt of any output in any pieces is valid text, bounded,
// and has correct counts.
func FuzzCut(f *testing.F) {
	f.Add([]byte("hello\nworld\n"), uint16(3), uint16(10), uint16(8))
	f.Add(bytes.Repeat([]byte("日本語\n"), 100), uint16(7), uint16(50), uint16(40))
	f.Add(bytes.Repeat([]byte{0xff}, 300), uint16(1), uint16(16), uint16(16))
	f.Fuzz(func(t *testing.T, text []byte, piece, whole, cut uint16) {
		l := Limits{Whole: int(whole), Cut: int(min(cut, whole))}
		out, errs := &Keeper{Limit: l.Whole}, &Keeper{Limit: l.Whole}
		for rest := text; len(rest) > 0; {
			n := min(int(piece)+1, len(rest))
			out.Write(rest[:n])
			errs.Write(rest[:n/2])
			rest = rest[n:]
		}
		e, _ := Cut(out, errs, l)
		if !utf8.ValidString(e.Text) || strings.ContainsAny(e.Text, "\x00\x1b\x7f\r") {
			t.Errorf("%q", e.Text)
		}
		if e.Bytes != int64(len(text)) || e.OmittedBytes < 0 || e.OmittedBytes > e.Bytes || e.OmittedLines > e.Lines {
			t.Errorf("%+v of %d bytes", e, len(text))
		}
		// A byte becomes at most three, and the line with the counts is added.
		if len(e.Text) > 3*l.Whole+100 {
			t.Errorf("%d bytes for limits %+v", len(e.Text), l)
		}
		if e.OmittedBytes == 0 && e.Text != Inert(Settle(text)) {
			t.Errorf("nothing is omitted, but %q is not %q", e.Text, text)
		}
	})
}

// A secret is masked too if it crosses a cut, or begins before the retained bytes.
func TestMaskHidesSecretsAcrossCuts(t *testing.T) {
	const secret = "SECRET-of-some-length"
	mask := func(p []byte, from, to int) []byte {
		hidden := bytes.ReplaceAll(p, []byte(secret), bytes.Repeat([]byte{'*'}, len(secret)))
		return hidden[from:to]
	}
	for gap := range 300 {
		k := &Keeper{Limit: 100, Mask: mask}
		for range 100 {
			k.Write([]byte(strings.Repeat("x", gap) + secret))
		}
		for _, l := range []Limits{{100, 100}, {100, 80}, {10, 10}, {1 << 20, 1 << 20}} {
			e, _ := Cut(k, &Keeper{}, l)
			head, rest, _ := strings.Cut(e.Text, "[…")
			_, tail, _ := strings.Cut(rest, "…]")
			if strings.Trim(head+tail, "x*\n") != "" {
				t.Fatalf("gap %d, %+v: head …%q, tail %q…", gap, l, head[max(0, len(head)-40):], tail[:min(40, len(tail))])
			}
		}
	}
}

func TestClipRunesCountsCharacters(t *testing.T) {
	for _, test := range []struct {
		s    string
		most int
		want string
	}{{"", 2, ""}, {"ab", 2, "ab"}, {"abc", 2, "ab…"}, {"漢字", 2, "漢字"}, {"漢字x", 2, "漢字…"}, {"a", 0, "…"}} {
		if got := ClipRunes(test.s, test.most); got != test.want {
			t.Errorf("%q to %d characters: %q, want %q", test.s, test.most, got, test.want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		in   string
		most int
		want string
	}{
		{"", 0, ""},
		{"short", 5, "short"},
		{"longer", 5, "longe…"},
		{"aé", 2, "a…"},
		{"a\xff\xff", 2, "a…"},
	} {
		if got := Clip(c.in, c.most); got != c.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.in, c.most, got, c.want)
		}
	}
}
