//go:build ignore

// Generate builds the agents that package agentbin embeds: each compressed, with a file of its
// checksum and size. With an argument it builds them in that directory instead.
package main

import (
	"bytes"
	"compress/gzip"
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
	dir, err := os.MkdirTemp("", "agent-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "agent")
	if err := agentbin.Build(context.Background(), arch, program); err != nil {
		return err
	}
	agent, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(agent); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(file+".gz", packed.Bytes(), 0o644); err != nil {
		return err
	}
	sum := sha256.Sum256(agent)
	return os.WriteFile(file+".sum", fmt.Appendf(nil, "%s %d\n", hex.EncodeToString(sum[:8]), len(agent)), 0o644)
}
