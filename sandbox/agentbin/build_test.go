package agentbin

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// The embedded source is complete and current: it builds to the same agent as the
// checkout.
func TestCarriedSourceGivesTheSameAgent(t *testing.T) {
	dir := t.TempDir()
	if err := Build(t.Context(), "arm64", filepath.Join(dir, "carried")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", linkFlags,
		"-o", filepath.Join(dir, "here"), "github.com/warmbox/warmbox/cmd/warmbox-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64", "GOFLAGS=", "GOARM64=v8.0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	carried, err1 := os.ReadFile(filepath.Join(dir, "carried"))
	here, err2 := os.ReadFile(filepath.Join(dir, "here"))
	if err1 != nil || err2 != nil || !bytes.Equal(carried, here) {
		t.Errorf("%d bytes from the carried source, %d from the checkout (%v, %v)", len(carried), len(here), err1, err2)
	}
	if names := entries(t, dir); len(names) != 2 {
		t.Errorf("the build left %q", names)
	}
}

// compiler puts a script into PATH as go, and returns the file that it knows as $TOLD.
func compiler(t *testing.T, script string) (told string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the compiler is a shell script")
	}
	dir := t.TempDir()
	told = filepath.Join(dir, "told")
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOLD", told)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return told
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// Concurrent callers build an agent once, and none of them sees a partial file.
func TestAgentIsBuiltOnce(t *testing.T) {
	told := compiler(t, `echo built >>"$TOLD"; sleep 0.2; echo "$GOOS/$GOARCH $CGO_ENABLED" >agent`)
	dir := filepath.Join(t.TempDir(), "built")
	killed := filepath.Join(dir, buildPrefix+"killed", "sandbox")
	if err := os.MkdirAll(killed, 0o700); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			path := filepath.Join(dir, "agent")
			if err := buildOnce(t.Context(), "arm64", path); err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(path); string(text) != "linux/arm64 0\n" {
				t.Errorf("the agent is %q, %v", text, err)
			}
		})
	}
	all.Wait()
	if text, err := os.ReadFile(told); string(text) != "built\n" {
		t.Errorf("the compiler's calls are %q, %v, want one", text, err)
	}
	if names := entries(t, dir); strings.Join(names, " ") != "agent lock" {
		t.Errorf("what is left: %q", names)
	}
	for name, want := range map[string]os.FileMode{".": os.ModeDir | 0o700, "agent": 0o755} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want mode %v", name, info.Mode(), err, want)
		}
	}
}

func TestFailedBuildSaysWhyAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent")
	compiler(t, `echo "go: downloading"; echo "go: golang.org/x/sys: module lookup disabled" >&2; exit 1`)
	err := buildOnce(t.Context(), "amd64", path)
	if err == nil || !strings.Contains(err.Error(), "go build: exit status 1: go: golang.org/x/sys: module lookup disabled") {
		t.Error(err)
	}
	compiler(t, `exec sleep 60`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := buildOnce(ctx, "amd64", path); err == nil || !strings.Contains(err.Error(), "context deadline exceeded") {
		t.Error(err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := buildOnce(t.Context(), "amd64", path); err == nil || !strings.Contains(err.Error(), "there is no go in PATH") {
		t.Error(err)
	}
	if names := entries(t, dir); strings.Join(names, " ") != "lock" {
		t.Errorf("what is left: %q", names)
	}
}

// Waiting for a lock ends with the caller's context.
func TestWaitForAnotherBuildEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	release, err := lock(ctx, path)
	if err == nil || !strings.Contains(err.Error(), "another warmbox is building it") {
		t.Error(err)
	}
	release()
	unlock()
	unlock, err = lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
