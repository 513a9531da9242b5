package rawlog

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sample returns the text of an index with every kind of record.
func sample(t testing.TB) []byte {
	x := index{}
	var err error
	if x.file, err = os.Create(filepath.Join(t.TempDir(), "idx")); err != nil {
		t.Fatal(err)
	}
	x.begin(Meta{Exec: "e1", Box: "b1", Cmd: "a\nb <&> \xff", Dir: "/w", Start: time.Unix(1e9, 5).UTC()})
	x.add(Stdout, []byte("out\n"), 0)
	x.add(Stderr, []byte("err\n"), time.Second)
	x.endSpan()
	x.fine = maxFine
	x.add(Stdout, []byte("out"), time.Second)
	x.add(Stderr, []byte("err"), 2*time.Second)
	x.end(End{Status: "exited", Code: 1, Took: 2 * time.Second})
	x.add(Stdout, []byte("left\n"), 4*time.Second)
	if err := x.close(Stats{Bytes: 19, Lines: 3, Kept: 19}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(x.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestIndexFormat(t *testing.T) {
	const want = `h {"exec":"e1","box":"b1","cmd":"a\nb <&> \ufffd","cmdBytes":9,"dir":"/w","start":"2001-09-09T01:46:40.000000005Z"}
o 4 1 0
e 4 1 1000
m 6 0 1000
x {"status":"exited","code":1,"tookMs":2000}
o 5 1 4000
z {"bytes":19,"lines":3,"kept":19}
`
	if got := string(sample(t)); got != want {
		t.Errorf("the index is\n%swant\n%s", got, want)
	}
}

// A server can crash after any byte.
func TestReadIndexCutAtAnyByte(t *testing.T) {
	text := sample(t)
	whole, _, err := readIndex(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	head := bytes.IndexByte(text, '\n') + 1
	for cut := range len(text) {
		x, _, err := readIndex(bytes.NewReader(text[:cut]))
		if (err != nil) != (cut < head) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if !slices.Equal(x.Spans, whole.Spans[:len(x.Spans)]) || x.Totals != nil {
			t.Fatalf("cut at %d: %+v", cut, x)
		}
	}
}

func TestReadIndexIgnoresUnknownRecords(t *testing.T) {
	text := "h {\"exec\":\"e1\",\"colour\":7}\nl 100 4000\no 4 1 0\n? what\n"
	x, _, err := readIndex(strings.NewReader(text))
	if err != nil || x.Exec != "e1" || len(x.Spans) != 1 {
		t.Errorf("%+v, %v", x, err)
	}
}

func TestReadIndexReportsDamage(t *testing.T) {
	const head = "h {}\n"
	for text, want := range map[string]string{
		"":                                     "no head yet",
		"h {}":                                 "no head yet",
		"o 1 1 1\n":                            "line 1: the head must be",
		head + head:                            "line 2: the head must be",
		head + "\n":                            "line 2: not a record",
		head + "o\n":                           "line 2: not a record",
		head + "o 1 1\n":                       "line 2: a span must have three numbers",
		head + "o 1 1 1\no 1 2 3\n":            "line 3: a span must not have more lines",
		head + "o 1 1 1 1\n":                   "line 2: a span must have three numbers",
		head + "o 1  1\n":                      "line 2: a span must have three numbers",
		head + "o 8796093022209 0 0\n":         "line 2: a span must have three numbers",
		head + "o -1 0 0\n":                    "line 2: a span must have three numbers",
		head + "o 99999999999999999999 0 0\n":  "line 2: a span must have three numbers",
		head + "x what\n":                      "line 2: invalid character",
		head + "z [1]\n":                       "line 2: json",
		head + strings.Repeat("y", maxRecord):  "line 2: bufio: buffer full",
		strings.Repeat("h", 2*maxRecord) + "{": "line 1: bufio: buffer full",
	} {
		x, _, err := readIndex(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || x == nil {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func FuzzReadIndex(f *testing.F) {
	f.Add(sample(f))
	f.Add([]byte("h {}\no 8796093022207 0 8796093022207\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		x, _, err := readIndex(bytes.NewReader(text))
		if x == nil {
			t.Fatal(err)
		}
		if x.Leftover > len(x.Spans) {
			t.Fatalf("span %d of %d", x.Leftover, len(x.Spans))
		}
		var off, line int64
		for _, s := range x.Spans {
			if s.Off != off || s.Line != line || s.Len < 0 || s.Feeds > s.Len || s.At < 0 {
				t.Fatalf("span %+v at byte %d, line %d", s, off, line)
			}
			off, line = off+s.Len, line+s.Feeds
		}
	})
}

// BenchmarkReadIndex reads the largest index of exact spans.
func BenchmarkReadIndex(b *testing.B) {
	text := append([]byte("h {}\n"), bytes.Repeat([]byte("o 1 0 1000\ne 1 1 1000\n"), maxFine/22)...)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, _, err := readIndex(bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
