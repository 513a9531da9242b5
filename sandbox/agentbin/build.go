package agentbin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/warmbox/warmbox"

	"github.com/warmbox/warmbox/filelock"
	"github.com/warmbox/warmbox/userdir"
)

// Ensure makes sure that there is an agent for an architecture. If this program embeds
// none and has built none before, Ensure builds it and says so on standard error, since
// that takes as long as a compiler does. Its error says what is missing and what to do.
func Ensure(ctx context.Context, arch string) error {
	if err := known(arch); err != nil || embedded(arch) {
		return err
	}
	path, err := builtFile(arch)
	if err == nil && !isFile(path) {
		err = buildOnce(ctx, arch, path)
	}
	if err != nil {
		return cannotBuild(arch, err)
	}
	return nil
}

// cannotBuild says what to do without an agent. Clients often start servers with a PATH
// that lacks Go, but they use what doctor has built from a terminal.
func cannotBuild(arch string, err error) error {
	return fmt.Errorf("this warmbox carries no agent for linux/%s, as only release archives do, and cannot build it: %w. "+
		"Run warmbox doctor where Go is in PATH, which builds the agent and keeps it, or install a release archive", arch, err)
}

// buildOnce builds an agent. If another program is building it, buildOnce waits for that.
func buildOnce(ctx context.Context, arch, path string) error {
	dir := filepath.Dir(path)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700)); err != nil { // chmod fails unless the user owns it
		return err
	}
	unlock, err := lock(ctx, filepath.Join(dir, "lock"))
	if err != nil || isFile(path) {
		return errors.Join(err, unlock())
	}
	removeLeftovers(dir)
	fmt.Fprintf(os.Stderr, "warmbox: building the agent for linux/%s with go, once; it is kept in %s\n", arch, dir)
	start := time.Now()
	if err = Build(ctx, arch, path); err == nil {
		fmt.Fprintf(os.Stderr, "warmbox: the agent is built, after %.1f s\n", time.Since(start).Seconds())
	}
	return errors.Join(err, unlock())
}

// lock locks a file, waiting for another holder, and returns the function that unlocks
// it. The system releases the lock when the program ends in any way.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return func() error { return nil }, err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := filelock.Try(f); !errors.Is(err, filelock.ErrHeld) {
			return f.Close, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return f.Close, fmt.Errorf("another warmbox is building it: %w", ctx.Err())
		}
	}
}

const buildPrefix = ".build-"

// removeLeftovers removes the directories of builds that were killed. The caller holds
// the lock, so none of them is in use.
func removeLeftovers(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, buildPrefix+"*"))
	for _, path := range left {
		os.RemoveAll(path)
	}
}

// builtFile returns the path of the agent that this program builds. The name contains the
// checksum of the source, so an agent of another version is never used.
func builtFile(arch string) (string, error) {
	cache, err := userdir.Cache()
	if err != nil {
		return "", fmt.Errorf("find a cache directory for it: %w", err)
	}
	sum, err := sourceSum()
	return filepath.Join(cache, "built", file(arch)+"-"+sum), err
}

// sourceSum returns a checksum of the names and contents of the embedded source.
func sourceSum() (string, error) {
	h := sha256.New()
	err := fs.WalkDir(warmbox.AgentSource, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := warmbox.AgentSource.ReadFile(name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:8]), err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// entry is where the agent's program begins. It is a shim or becomes an agent, see
// sandbox/agent/shimcall.go.
const entry = "_rt0_warmbox"

const linkFlags = "-ldflags=-s -w -buildid= -E " + entry

// Build builds the agent for an architecture with the Go toolchain in PATH. The same
// source and toolchain give the same bytes on every machine. The file at path appears
// complete or not at all.
//
// The source is the one that was embedded when this program was compiled. So the agent
// has exactly this program's protocol, whatever has become of the checkout or module
// since. Fetching the module by the version in the build info was rejected: an edited
// checkout has none. Other modules come from the module cache or the proxy, with the
// versions and checksums of this program's go.mod and go.sum.
func Build(ctx context.Context, arch, path string) error {
	compiler, err := exec.LookPath("go")
	if err != nil {
		return errors.New("there is no go in PATH")
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), buildPrefix+"*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, warmbox.AgentSource); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, compiler, "build", "-buildvcs=false", linkFlags, "-o", "agent", "./cmd/warmbox-agent")
	cmd.Dir = dir
	cmd.WaitDelay = time.Second // compilers that outlive a killed go hold its output
	// Settings of this machine must not change the result.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOWORK=off",
		"GOFLAGS=-trimpath -mod=readonly", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("go build was stopped: %w", ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("go build: %w: %s", err, lastLine(out))
	}
	return put(filepath.Join(dir, "agent"), path)
}

// lastLine returns the end of go's output, which says why it failed.
func lastLine(out []byte) string {
	const most = 300
	lines := strings.Split(string(bytes.TrimSpace(out)), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	return strings.ToValidUTF8(last[max(0, len(last)-most):], "")
}

// put moves a program to its place after it is completely on disk.
func put(from, to string) error {
	f, err := os.OpenFile(from, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = errors.Join(f.Sync(), f.Close(), os.Chmod(from, 0o755))
	if err != nil {
		return err
	}
	return os.Rename(from, to)
}
