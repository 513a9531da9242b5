//go:build ignore

// Build makes the agents that package agentbin embeds, the same bytes from the
// same source and toolchain wherever it runs, and beside each its sum. With an
// argument it makes them in that directory instead.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	dir := "bin"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	for _, arch := range []string{"amd64", "arm64"} {
		if err := build(arch, filepath.Join(dir, "warmbox-agent-linux-"+arch)); err != nil {
			fmt.Fprintf(os.Stderr, "build the agent for linux/%s: %v\n", arch, err)
			os.Exit(1)
		}
	}
}

func build(arch, file string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=",
		"-o", file, "github.com/warmbox/warmbox/cmd/warmbox-agent")
	// What a developer's machine is set to must not show in the result.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch,
		"GOFLAGS=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	agent, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(agent)
	return os.WriteFile(file+".sum", []byte(hex.EncodeToString(sum[:8])), 0o644)
}
