//go:build linux

package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// What two streams print one after the other arrives in this order, even if the agent gets no
// processor before both have printed.
func TestStreamsArriveInOrderOfWriting(t *testing.T) {
	dir := t.TempDir()
	h := spareHost(t, 0, dir)
	for i := range 20 {
		first, second := wire.Stdout, wire.Stderr
		prints := "echo out; echo err >&2"
		if i%2 > 0 {
			first, second = second, first
			prints = "echo err >&2; echo out"
		}
		file := func(name string) string { return filepath.Join(dir, fmt.Sprint(name, i)) }
		run := h.run(wire.StartBody{Cmd: fmt.Sprintf("echo begun; until [ -e %s ]; do :; done; %s; touch %s; until [ -e %s ]; do :; done",
			file("go"), prints, file("printed"), file("end"))})
		h.until(run, "begun\n")
		h.cmd.Process.Signal(syscall.SIGSTOP) // so that it reads nothing before both have printed
		for readState(h.cmd.Process.Pid) != "T" {
		}
		create(t, file("go"))
		for deadline := time.Now().Add(20 * time.Second); ; {
			if _, err := os.Stat(file("printed")); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the command has not printed")
			}
		}
		h.cmd.Process.Signal(syscall.SIGCONT)
		if a, b := h.next().Kind, h.next().Kind; a != first || b != second {
			t.Fatalf("round %d: %v, then %v; want %v, then %v", i, a, b, first, second)
		}
		create(t, file("end"))
		h.until(run, "")
	}
}

func create(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
