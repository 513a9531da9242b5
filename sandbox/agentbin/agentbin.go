// Package agentbin carries the agent's executables, which a server that runs
// on any system puts into Linux boxes.
//
// They are built by go generate and are no part of the repository, so a build
// without that step works and carries none: For then says how to get a server
// that has them. The package neither starts nor installs anything.
package agentbin

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:generate go run build.go

// bin holds a README besides, so that it can be embedded without the agents.
//
//go:embed bin
var bin embed.FS

// For returns the agent for Linux on an architecture by Go's name of it. The
// caller must not count on an agent being there.
func For(arch string) ([]byte, error) {
	if !slices.Contains(Archs(), arch) {
		return nil, fmt.Errorf("there is no agent for linux/%s, only for %s", arch, strings.Join(Archs(), " and "))
	}
	return read(arch, file(arch))
}

// Describe returns by what the agent for an architecture is known, and how many
// bytes it has. For copies them all, and whoever has an agent of that sum in place
// needs none of them.
func Describe(arch string) (sum string, size int64, err error) {
	if !slices.Contains(Archs(), arch) {
		_, err := For(arch)
		return "", 0, err
	}
	text, err := read(arch, file(arch)+".sum")
	if err != nil {
		return "", 0, err
	}
	info, err := fs.Stat(bin, "bin/"+file(arch))
	if err != nil {
		return "", 0, err
	}
	return string(text), info.Size(), nil
}

func read(arch, name string) ([]byte, error) {
	content, err := bin.ReadFile("bin/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this warmbox was built without the agent for linux/%s, which a plain go install does not carry: "+
			"clone the repository and run scripts/try, or in a clone: go generate ./... && go build ./cmd/warmbox, or install a release binary", arch)
	}
	return content, err
}

// Archs returns the architectures that agents are built for.
func Archs() []string { return []string{"amd64", "arm64"} }

func file(arch string) string { return "warmbox-agent-linux-" + arch }
