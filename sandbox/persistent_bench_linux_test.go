package sandbox

import "testing"

// BenchmarkKept shows what it costs that a box is kept.
func BenchmarkKept(b *testing.B) {
	for _, kept := range []bool{false, true} {
		s := newSite(b)
		s.logs.MaxRun = 1 << 20
		box := s.openAs(b.Context(), kept)
		name := map[bool]string{false: "not", true: "kept"}[kept]
		b.Run("true/"+name, func(b *testing.B) {
			for b.Loop() {
				<-s.start(box, Command{Cmd: ":"}).Done()
			}
		})
		b.Run("bulk/"+name, func(b *testing.B) {
			b.SetBytes(256 << 20)
			for b.Loop() {
				<-s.start(box, Command{Cmd: "head -c 256M /dev/zero"}).Done()
			}
		})
		box.Close()
	}
}
