package agentbin_test

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox/agentbin"
)

// With a stale agent, every other test would test another program.
func TestEmbeddedAgentsAreBuiltFromThisSource(t *testing.T) {
	for _, arch := range agentbin.Archs() {
		if _, err := agentbin.For(arch); err != nil {
			t.Skipf("not generated: %v", err)
		}
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "run", "generate.go", dir).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, arch := range agentbin.Archs() {
		for _, end := range []string{".gz", ".sum"} {
			name := "warmbox-agent-linux-" + arch + end
			fresh, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			existing, err := os.ReadFile(filepath.Join("bin", name))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(fresh, existing) {
				t.Errorf("%s is not of this source (%d bytes, a fresh one has %d); run: go generate ./sandbox/agentbin", name, len(existing), len(fresh))
			}
		}
	}
}

// Any image must be able to run the agent, also one without a C library.
func TestAgentIsStatic(t *testing.T) {
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for _, arch := range agentbin.Archs() {
		agent, err := agentbin.For(arch)
		if err != nil {
			t.Skipf("not generated: %v", err)
		}
		f, err := elf.NewFile(bytes.NewReader(agent))
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != machine[arch] {
			t.Errorf("%s: built for %v", arch, f.Machine)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				t.Errorf("%s: needs a dynamic loader", arch)
			}
		}
	}
}

func TestUnknownArchitectureIsRefusedWithAList(t *testing.T) {
	_, err := agentbin.For("../../etc/passwd")
	if err == nil || !strings.Contains(err.Error(), "amd64 and arm64") {
		t.Errorf("got %v, want an error that names the known architectures", err)
	}
}

func TestDescribeMatchesTheAgent(t *testing.T) {
	for _, arch := range agentbin.Archs() {
		agent, err := agentbin.For(arch)
		if err != nil {
			t.Skipf("not generated: %v", err)
		}
		sum, size, err := agentbin.Describe(arch)
		if whole := sha256.Sum256(agent); err != nil || sum != hex.EncodeToString(whole[:8]) || size != int64(len(agent)) {
			t.Errorf("%s: %s, %d bytes, %v", arch, sum, size, err)
		}
	}
	if _, _, err := agentbin.Describe("z80"); err == nil {
		t.Error("Describe knows an agent for a z80")
	}
}
