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
)

// Ensure sees that there is an agent for an architecture: it builds one where this
// program carries none and has built none before. It tells on standard error that
// it builds, since that takes as long as a compiler does. Where it cannot, its
// error says what is missing and what to do.
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

// cannotBuild says what to do where there is no agent. A client starts its
// servers with a PATH of its own, often without Go, but what doctor has built
// from a terminal is there for them too.
func cannotBuild(arch string, err error) error {
	return fmt.Errorf("this warmbox carries no agent for linux/%s, as only release archives do, and cannot build it: %w. "+
		"Run warmbox doctor where Go is in PATH, which builds the agent and keeps it, or install a release archive", arch, err)
}

// buildOnce builds an agent unless another program is at it, and then waits for
// that one.
func buildOnce(ctx context.Context, arch, path string) error {
	dir := filepath.Dir(path)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700)); err != nil { // only its owner can
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

// lock takes the lock of a file, waiting for whoever has it, and returns what
// gives it back. The system gives it back when the program ends, however it does.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return func() error { return nil }, err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if free, err := tryLock(f); free || err != nil {
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

// removeLeftovers removes the directories of builds that were killed. The caller
// has the lock, so none of them is in use.
func removeLeftovers(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, buildPrefix+"*"))
	for _, path := range left {
		os.RemoveAll(path)
	}
}

// builtFile returns where the agent that this program builds lies. The name has
// the sum of the source, so no other version's agent is ever there.
func builtFile(arch string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place to keep it: %w", err)
	}
	sum, err := sourceSum()
	return filepath.Join(base, "warmbox", "built", file(arch)+"-"+sum), err
}

// sourceSum is the sum of the names and texts of all source that this program
// carries.
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

// Build builds the agent for an architecture with the Go toolchain in PATH: the
// same bytes from the same source and toolchain wherever it runs. The file appears
// whole or not at all.
//
// The source is the one that the compiler saw when it made this program, which
// carries it: so the agent speaks exactly this program's protocol, whatever has
// become of the checkout or module that the program was built from. To fetch the
// module by the version in the build info was rejected: a checkout that was edited
// has none. Other modules come from the module cache, or the proxy, in the
// versions and with the sums of this program's go.mod and go.sum.
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
	cmd := exec.CommandContext(ctx, compiler, "build", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", "agent", "./cmd/warmbox-agent")
	cmd.Dir = dir
	cmd.WaitDelay = time.Second // compilers that a killed go leaves behind hold its output
	// What the machine is set to must not show in the result.
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

// lastLine returns the end of what go said, which is what stopped it.
func lastLine(out []byte) string {
	const most = 300
	lines := strings.Split(string(bytes.TrimSpace(out)), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	return strings.ToValidUTF8(last[max(0, len(last)-most):], "")
}

// put moves a program to its place, once the disk has all of it.
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
