package rawlog_test

import (
	"bytes"
	"fmt"
	"regexp"
	"testing"

	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/rawlog"
)

// large returns a store with one log of at least size bytes.
func large(t testing.TB, size int) *rawlog.Store {
	s := &rawlog.Store{Dir: t.TempDir(), MaxRun: 2 << 30}
	log := s.Create(rawlog.Meta{Exec: "e1"})
	var block bytes.Buffer
	for n := 0; n < size; n += block.Len() {
		block.Reset()
		for i := range 1000 {
			fmt.Fprintf(&block, "%012d a line of some fifty bytes, as a build prints it\n", n+i)
		}
		log.Write(rawlog.Stdout, block.Bytes())
	}
	log.Write(rawlog.Stderr, []byte("the last one of very many\n"))
	log.Close()
	return s
}

// Reading a range of a large log reads the index and little more of the log than
// the range itself.
func TestReadRangeOfLargeLogReadsLittle(t *testing.T) {
	const much = 4 << 20
	s := large(t, 64<<20)
	for name, q := range map[string]rawlog.Query{
		"begin": {From: 1, Most: 200}, "middle": {From: 500_000, Most: 200}, "end": {Most: 200},
		"other stream": {From: 1, Most: 10, Stream: rawlog.Stderr}, "other stream's end": {Most: 10, Stream: rawlog.Stderr},
	} {
		t.Run(name, func(t *testing.T) {
			q.Bytes = 16_000
			before := boxtest.ProcessIO(t, "rchar")
			r, err := s.Open("e1")
			if err != nil {
				t.Fatal(err)
			}
			p, err := r.Read(t.Context(), q)
			r.Close()
			if err != nil || len(p.Lines) == 0 {
				t.Fatalf("%s: %d lines, %v", name, len(p.Lines), err)
			}
			bytes := boxtest.ProcessIO(t, "rchar") - before
			t.Logf("%s: %d bytes", name, bytes)
			if bytes > much {
				t.Errorf("%s: %d bytes were read, more than %d", name, bytes, much)
			}
		})
	}
}

func BenchmarkRange(b *testing.B) {
	s := large(b, 1<<30)
	for b.Loop() {
		r, err := s.Open("e1")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := r.Read(b.Context(), rawlog.Query{From: 8_000_000, Most: 200, Bytes: 16_000}); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

func BenchmarkSearch(b *testing.B) {
	s := large(b, 1<<30)
	for name, pattern := range map[string]string{"literal": "of very many", "pattern": "(?i)error|fail(ed|ure)"} {
		b.Run(name, func(b *testing.B) {
			r, err := s.Open("e1")
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			b.SetBytes(r.Bytes())
			for b.Loop() {
				if _, err := r.Read(b.Context(), rawlog.Query{From: 1, Most: 9, Bytes: 16_000, Match: regexp.MustCompile(pattern)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
