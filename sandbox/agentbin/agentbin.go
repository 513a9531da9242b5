// Package agentbin provides the agent's executables, which a server on any system copies
// into Linux boxes.
//
// A release embeds them: go generate builds them. They are not in the repository, so a
// plain go build or go install makes a program without them. Such a program builds the
// agent on first use, from the agent's source, which every program embeds, and keeps it
// in the user's cache. The package neither starts nor installs anything.
//
// The caller must call Ensure before it relies on For or Describe.
package agentbin

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

//go:generate go run generate.go

// bin has, for each agent, the compressed program and a file of its checksum and size. It
// also has a README, so that it can be embedded without the agents.
//
//go:embed bin
var bin embed.FS

// For returns the agent for linux/arch, where arch is a GOARCH. To decompress it takes some
// 20 ms.
func For(arch string) ([]byte, error) {
	if err := known(arch); err != nil {
		return nil, err
	}
	if embedded(arch) {
		return decompress("bin/" + file(arch) + ".gz")
	}
	path, err := builtFile(arch)
	if err != nil {
		return nil, cannotBuild(arch, err)
	}
	agent, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this warmbox carries no agent for linux/%s and has not built one yet; warmbox doctor builds it", arch)
	}
	return agent, err
}

// Describe returns a checksum of the agent for an architecture, and its size in bytes. A
// caller that has an agent of that sum in place can skip For.
func Describe(arch string) (sum string, size int64, err error) {
	if err := known(arch); err != nil {
		return "", 0, err
	}
	if !embedded(arch) {
		agent, err := For(arch)
		whole := sha256.Sum256(agent)
		return hex.EncodeToString(whole[:8]), int64(len(agent)), err
	}
	text, err := bin.ReadFile("bin/" + file(arch) + ".sum")
	if err != nil {
		return "", 0, err
	}
	if _, err := fmt.Sscan(string(text), &sum, &size); err != nil {
		return "", 0, fmt.Errorf("read %s.sum: %w", file(arch), err)
	}
	return sum, size, nil
}

func decompress(name string) ([]byte, error) {
	packed, err := bin.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", name, err)
	}
	agent, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", name, err)
	}
	return agent, nil
}

// Archs returns the architectures that agents are built for.
func Archs() []string { return []string{"amd64", "arm64"} }

func known(arch string) error {
	if !slices.Contains(Archs(), arch) {
		return fmt.Errorf("there is no agent for linux/%s, only for %s", arch, strings.Join(Archs(), " and "))
	}
	return nil
}

func embedded(arch string) bool {
	_, err := fs.Stat(bin, "bin/"+file(arch)+".gz")
	return err == nil
}

func file(arch string) string { return "warmbox-agent-linux-" + arch }
