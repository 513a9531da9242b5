package docker

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

// TestPull has the engine pull an image from a registry of the test, which it reaches
// on the loopback: once, with progress, and not again.
func TestPull(t *testing.T) {
	e := requireEngine(t)
	var asked atomic.Int32
	images := registry.New(registry.Logger(log.New(writerFunc(func(line string) {
		if strings.Contains(line, "GET") && strings.Contains(line, "/manifests/") || strings.Contains(line, "HEAD") {
			asked.Add(1)
		}
	}), "", 0)))
	server := httptest.NewServer(images)
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/acme/tool:1"
	push(t, e.Client, ref)

	var progress []string
	m := boxtest.Manager(t, newLauncher(t, Config{}), sandbox.Spec{Image: DefaultImage})
	m.Images = []string{"127.0.0.1:*/acme/*"}
	request := sandbox.Request{Image: ref, Progress: func(line string) { progress = append(progress, line) }}
	start := func() {
		t.Helper()
		box, _, err := m.Start(t.Context(), sandbox.Owner{}, request)
		if err != nil {
			t.Fatal(err)
		}
		box.Close()
	}
	start()
	if len(progress) == 0 || !strings.Contains(progress[0], "pulling "+ref) {
		t.Errorf("progress %q", progress)
	}
	first := asked.Load()
	if first == 0 {
		t.Error("the registry was not asked for the image")
	}
	start()
	if n := asked.Load(); n != first {
		t.Errorf("the registry was asked %d times more for an image that is there", n-first)
	}
}

// TestImageWithoutShellSaysSo: the error of its commands names the cause, not the limits of the box.
func TestImageWithoutShellSaysSo(t *testing.T) {
	e := requireEngine(t)
	const ref = "warmbox-test/shell-less:1"
	text := []byte("root:x:0:0:root:/root:/bin/sh\n")
	files := archive(text, &tar.Header{Typeflag: tar.TypeDir, Name: "etc", Mode: 0o755}, &tar.Header{Name: "etc/passwd", Mode: 0o644, Size: int64(len(text))})
	done(t)(e.Client.ImageImport(t.Context(), image.ImportSource{Source: files, SourceName: "-"}, ref, image.ImportOptions{Platform: "linux/" + runtime.GOARCH}))
	t.Cleanup(func() { e.Client.ImageRemove(context.Background(), ref, image.RemoveOptions{PruneChildren: true}) })
	m := boxtest.Manager(t, newLauncher(t, Config{}), sandbox.Spec{Image: ref})
	box, _, err := m.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := box.Exec(t.Context(), sandbox.Command{Cmd: "true"})
	if err == nil {
		<-run.Done()
		err = run.Exit().Err
	}
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.InvalidArgument || !strings.Contains(e.Text, `its image "`+ref+`" has no shell (/bin/sh)`) || strings.Contains(e.Hint, "Stop") {
		t.Errorf("%#v", err)
	}
}

// push pushes a small image to a registry, and removes it from the engine.
func push(t *testing.T, c *client.Client, ref string) {
	t.Helper()
	forget := func() { c.ImageRemove(context.Background(), ref, image.RemoveOptions{PruneChildren: true}) }
	t.Cleanup(forget)
	defer forget()
	text := []byte("root:x:0:0:root:/root:/bin/sh\n")
	files := archive(text, &tar.Header{Typeflag: tar.TypeDir, Name: "etc", Mode: 0o755}, &tar.Header{Name: "etc/passwd", Mode: 0o644, Size: int64(len(text))})
	done(t)(c.ImageImport(t.Context(), image.ImportSource{Source: files, SourceName: "-"}, ref, image.ImportOptions{Platform: "linux/" + runtime.GOARCH}))
	done(t)(c.ImagePush(t.Context(), ref, image.PushOptions{RegistryAuth: "e30="})) // "{}"
}

// done reads an engine's report to its end.
func done(t *testing.T) func(io.ReadCloser, error) {
	return func(body io.ReadCloser, err error) {
		t.Helper()
		if err == nil {
			defer body.Close()
			err = readMessages(body, func(message) {})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A writerFunc is a writer of lines.
type writerFunc func(line string)

func (f writerFunc) Write(p []byte) (int, error) {
	f(string(p))
	return len(p), nil
}
