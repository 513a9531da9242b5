//go:build ignore

// Generate builds the agents that package agentbin embeds, each with a file of its
// checksum. With an argument it builds them in that directory instead.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/warmbox/warmbox/sandbox/agentbin"
)

func main() {
	dir := "bin"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	for _, arch := range agentbin.Archs() {
		if err := generate(arch, filepath.Join(dir, "warmbox-agent-linux-"+arch)); err != nil {
			fmt.Fprintf(os.Stderr, "build the agent for linux/%s: %v\n", arch, err)
			os.Exit(1)
		}
	}
}

func generate(arch, file string) error {
	if err := agentbin.Build(context.Background(), arch, file); err != nil {
		return err
	}
	agent, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(agent)
	return os.WriteFile(file+".sum", []byte(hex.EncodeToString(sum[:8])), 0o644)
}
