package docker

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/warmbox/warmbox/sandbox"
)

// piece is output as an engine multiplexes it.
func piece(stream byte, text string) string {
	h := []byte{stream, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(h[4:], uint32(len(text)))
	return string(h) + text
}

func TestDemultiplexerSplitsOutputs(t *testing.T) {
	in := piece(1, "a") + piece(2, "words") + piece(1, "") + piece(1, "bc") + piece(0, "stdin?") + piece(2, " more")
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in))} {
		t.Run(name, func(t *testing.T) {
			d := &demultiplexer{r: r, stderr: new(sandbox.LastLines)}
			out, err := io.ReadAll(d)
			if string(out) != "abc" || err != nil || d.stderr.String() != "wordsstdin? more" {
				t.Errorf("got %q, %v, stderr %q", out, err, d.stderr)
			}
		})
	}
}

func TestDemultiplexerRefusesBadHeaders(t *testing.T) {
	for name, in := range map[string]string{
		"stream": piece(3, "x"), "padding": "\x01x\x00\x00\x00\x00\x00\x01a", "length": "\x01\x00\x00\x00\xff\xff\xff\xffab",
		"length of stderr": "\x02\x00\x00\x00\xff\xff\xff\xffab", "cut header": "\x01\x00", "cut piece": piece(1, "abc")[:10],
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := io.ReadAll(&demultiplexer{r: strings.NewReader(in), stderr: new(sandbox.LastLines)}); err == nil {
				t.Errorf("no error, read %q", out)
			}
		})
	}
}

func FuzzDemultiplexer(f *testing.F) {
	f.Add([]byte(piece(1, "out") + piece(2, "err")))
	f.Fuzz(func(t *testing.T, in []byte) {
		d := &demultiplexer{r: bytes.NewReader(in), stderr: new(sandbox.LastLines)}
		if out, _ := io.ReadAll(d); len(out) > len(in) {
			t.Errorf("%d bytes made of %d", len(out), len(in))
		}
	})
}
