package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// createImage creates an image of nothing but a program that never ends.
func createImage(t *testing.T, e *Engine) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sleeper")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, "./testdata/sleeper")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var root bytes.Buffer
	w := tar.NewWriter(&root)
	w.WriteHeader(&tar.Header{Name: "sleeper", Mode: 0o755, Size: int64(len(program))})
	w.Write(program)
	w.Close()
	made, err := call(t.Context(), e.Host, "POST", "/images/create?fromSrc=-&repo=test/sleeper&tag=1", &root)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	if text, err := io.ReadAll(made); err != nil || bytes.Contains(text, []byte(`"error"`)) {
		t.Fatalf("%s, %v", text, err)
	}
}

// run starts a container with two processes.
func run(t *testing.T, e *Engine) (id string) {
	t.Helper()
	request := `{"Image":"test/sleeper:1","Cmd":["/sleeper"],"StopSignal":"SIGKILL",
		"HostConfig":{"NetworkMode":"none","Binds":["` + e.path("home") + `:/mnt"]}}`
	var created struct{ ID string }
	answer(t, e, "POST", "/containers/create", request, &created)
	answer(t, e, "POST", "/containers/"+created.ID+"/start", "", nil)
	return created.ID
}

func running(t *testing.T, e *Engine, id string) bool {
	t.Helper()
	var c struct{ State struct{ Running bool } }
	answer(t, e, "GET", "/containers/"+id+"/json", "", &c)
	return c.State.Running
}

func answer(t *testing.T, e *Engine, method, path, request string, v any) {
	t.Helper()
	body, err := call(t.Context(), e.Host, method, path, strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if v != nil {
		if err := json.NewDecoder(body).Decode(v); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEngineFaultsAndCleanup(t *testing.T) {
	for name, c := range map[string]Config{
		"plain": {}, "live restore": {Args: []string{"--live-restore"}}, "userns": {UserNS: true}, "rootless": {Rootless: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := bridges(t)
			begun := time.Now()
			e := Start(t, c)
			t.Logf("started in %v", time.Since(begun))
			createImage(t, e)
			id := run(t, e)

			begun = time.Now()
			e.Kill()
			if e.ping() == nil {
				t.Error("a killed engine answers a ping")
			}
			if len(e.processes()) == 0 {
				t.Error("the container has ended with dockerd")
			}
			e.Restart()
			t.Logf("killed and started again in %v", time.Since(begun))
			if got, want := running(t, e, id), name == "live restore"; got != want {
				t.Errorf("after a crash the container runs: %v, want %v", got, want)
			}

			e.Pause()
			if err := e.ping(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a paused engine: %v", err)
			}
			e.Resume()
			if err := e.ping(); err != nil {
				t.Error(err)
			}
			run(t, e)
			e.Pause() // a paused engine can be stopped
			begun = time.Now()
			e.Stop()
			t.Logf("stopped in %v", time.Since(begun))
			checkNothingLeft(t, e)
			if after := bridges(t); !slices.Equal(after, before) {
				t.Errorf("the machine had the bridges %v and has %v", before, after)
			}
		})
	}
}

// bridges lists the bridges that engines create for themselves. Those of other networks
// come and go.
func bridges(t *testing.T) []string {
	list, err := filepath.Glob("/sys/class/net/docker*/bridge")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// checkNothingLeft checks that nothing is left of an engine.
func checkNothingLeft(t *testing.T, e *Engine) {
	t.Helper()
	if left := e.processes(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	for _, pattern := range []string{e.Dir, "/sys/fs/cgroup/" + e.group(), "/sys/fs/cgroup/*/" + e.group()} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	all, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), e.Dir) {
			t.Errorf("mounts are left in %s", file)
		}
	}
}
