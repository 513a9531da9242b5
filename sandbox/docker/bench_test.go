package docker

import (
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/warmbox/warmbox/sandbox"
)

// BenchmarkColdStart compares the launch of a box with the least that an engine
// needs to start any container of the same image.
func BenchmarkColdStart(b *testing.B) {
	e, err := find(b.Context(), "")
	if err != nil {
		b.Skip(err)
	}
	defer e.Close()
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			c, err := e.ContainerCreate(b.Context(), &container.Config{Image: DefaultImage, Cmd: []string{"sleep", "60"}}, &container.HostConfig{NetworkMode: "none"}, nil, nil, "")
			if err != nil {
				b.Fatal(err)
			}
			err = e.ContainerStart(b.Context(), c.ID, container.StartOptions{})
			b.StopTimer()
			e.ContainerRemove(b.Context(), c.ID, container.RemoveOptions{Force: true})
			b.StartTimer()
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, path := range []string{pathSocket, pathRelay} {
		l := New(Config{ForcePath: path, StateDir: b.TempDir(), CacheDir: b.TempDir()})
		b.Run(path, func(b *testing.B) {
			benchLaunch(b, l)
		})
	}
}

func benchLaunch(b *testing.B, l *Launcher) {
	if warm, err := l.Launch(b.Context(), "warm", sandbox.Spec{}); err != nil { // learns about the image
		b.Fatal(err)
	} else if err := warm.Close(); err != nil {
		b.Fatal(err)
	}
	var closing testing.BenchmarkResult
	for b.Loop() {
		box, err := l.Launch(b.Context(), "bench", sandbox.Spec{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		closing.T += timed(func() { err = box.Close() })
		closing.N++
		b.StartTimer()
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(closing.T.Milliseconds())/float64(closing.N), "ms/close")
}

func timed(do func()) time.Duration {
	begun := time.Now()
	do()
	return time.Since(begun)
}
