package model

import (
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox/summary"
)

func TestNewKeyRefusesOtherText(t *testing.T) {
	k, err := NewKey(" sk-1234\n")
	if err != nil || k.text() != "sk-1234" || !k.IsSet() {
		t.Errorf("%v, %v", k.text(), err)
	}
	for text, want := range map[string]string{
		"\n":                            "the key is empty",
		"my sk-1234":                    "one word",
		strings.Repeat("sk-1234", 1000): "at most 4096 bytes",
	} {
		if k, err := NewKey(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk-1234") || k.IsSet() {
			t.Errorf("%.20s: %v, want %q", text, err, want)
		}
	}
}

func TestShortenCutsAtLines(t *testing.T) {
	d := summary.Digest{Cmd: strings.Repeat("é", maxCmd), Kept: strings.Repeat("12: twenty bytes more\n", 1000)}
	for _, most := range []int{0, 1, 100, 1 << 10, 16 << 10} {
		short := shorten(d, most)
		if len(short.Kept) > most+len("…\n") || len(short.Cmd) > maxCmd+len("…") {
			t.Errorf("%d: %d bytes of lines, %d of the command", most, len(short.Kept), len(short.Cmd))
		}
		for line := range strings.Lines(short.Kept) {
			if line != "12: twenty bytes more\n" && line != "…\n" {
				t.Errorf("%d: a piece of a line: %q", most, line)
			}
		}
	}
	if d.Kept = "1: a\n2: b\n"; shorten(d, len(d.Kept)).Kept != d.Kept {
		t.Error("a digest within the limit was cut")
	}
}
