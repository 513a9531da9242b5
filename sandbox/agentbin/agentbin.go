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
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

//go:generate go run generate.go

// bin also has a README, so that it can be embedded without the agents.
//
//go:embed bin
var bin embed.FS

// For returns the agent for linux/arch, where arch is a GOARCH.
func For(arch string) ([]byte, error) {
	if err := known(arch); err != nil {
		return nil, err
	}
	if embedded(arch) {
		return bin.ReadFile("bin/" + file(arch))
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
// caller that has an agent of that sum in place can skip For, which copies all of it.
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
	info, err := fs.Stat(bin, "bin/"+file(arch))
	if err != nil {
		return "", 0, err
	}
	return string(text), info.Size(), nil
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
	_, err := fs.Stat(bin, "bin/"+file(arch))
	return err == nil
}

func file(arch string) string { return "warmbox-agent-linux-" + arch }
