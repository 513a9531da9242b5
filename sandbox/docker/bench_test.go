package docker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/warmbox/warmbox/sandbox"
)

// BenchmarkColdStart compares the launch of a box with the least that an engine
// needs to start any container of the same image.
func BenchmarkColdStart(b *testing.B) {
	e, err := find(b.Context(), "", newCleanups())
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
	for _, c := range []struct{ name, path, seccomp string }{
		{"socket", socketTransport, ""},
		{"relay", relayTransport, ""},
		{"socket with the engine's seccomp", socketTransport, EngineSeccomp},
	} {
		l := New(Config{Transport: c.path, SeccompProfile: c.seccomp, StateDir: b.TempDir(), CacheDir: b.TempDir()})
		b.Run(c.name, func(b *testing.B) { benchLaunch(b, l, sandbox.Spec{}) })
	}
	covered := sandbox.Spec{Workspace: b.TempDir(), Protect: []string{".git/hooks", ".git/config", ".envrc"}, User: "1000:1000"}
	for _, dir := range []string{".git/hooks", ".git/config", ".envrc"} {
		if err := os.MkdirAll(filepath.Join(covered.Workspace, dir), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("socket with protected files", func(b *testing.B) {
		benchLaunch(b, New(Config{Transport: socketTransport, StateDir: b.TempDir(), CacheDir: b.TempDir()}), covered)
	})
}

func benchLaunch(b *testing.B, l *Launcher, spec sandbox.Spec) {
	defer l.Close()
	if warm, err := l.Launch(b.Context(), "warm", spec); err != nil { // learns about the image
		b.Fatal(err)
	} else if err := warm.Close(); err != nil {
		b.Fatal(err)
	}
	var closing testing.BenchmarkResult
	for b.Loop() {
		box, err := l.Launch(b.Context(), "bench", spec)
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
