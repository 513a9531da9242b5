//go:build linux

package agent

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// FuzzRing compares a ring with a list. Each byte is a step: how many bytes are added, by
// which of four runs, and whether they may extend the newest record.
func FuzzRing(f *testing.F) {
	f.Add([]byte("abcabc"))
	f.Add([]byte{0, 255, 127, 128, 3, 64, 65, 66, 200, 9})
	f.Fuzz(func(t *testing.T, steps []byte) {
		r, err := newRing(300)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(r.mem)
		type entry struct {
			record
			text []byte
		}
		var list []entry
		for i, step := range steps {
			rec := record{run: uint32(step % 4), kind: wire.Stdout, n: int(step) / 4}
			text := bytes.Repeat([]byte{step, '\n'}, 40)[i%2:][:rec.n]
			for !r.fits(rec.n) {
				got, feeds := r.drop()
				if want := list[0]; got != want.record || feeds != int64(bytes.Count(want.text, lineFeed)) {
					t.Fatalf("dropped %+v, %d; want %+v", got, feeds, want)
				}
				list = list[1:]
			}
			if step%3 == 0 && r.extend(rec, text, 0) {
				last := &list[len(list)-1]
				last.n += rec.n
				last.text = append(last.text, text...)
				continue
			}
			r.add(rec, text)
			list = append(list, entry{rec, bytes.Clone(text)})
		}
		at := r.tail
		for _, want := range list {
			got := r.record(at)
			text := make([]byte, got.n)
			if r.get(at+recordLen, text); got != want.record || !bytes.Equal(text, want.text) {
				t.Fatalf("%+v %q, want %+v %q", got, text, want.record, want.text)
			}
			at += recordLen + int64(got.n)
		}
		if at != r.head {
			t.Errorf("%d bytes follow the last record", r.head-at)
		}
	})
}
