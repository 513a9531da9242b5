//go:build linux

package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// Seen gives each path's device and inode, with links followed, in order.
func TestSeenReportsDeviceAndInode(t *testing.T) {
	h := start(t)
	dir := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	h.sendJSON(wire.Look, wire.ID{}, wire.LookBody{Paths: []string{dir, filepath.Join(dir, "absent"), filepath.Join(dir, "link")}})
	f, err := h.r.Read()
	if err != nil || f.Kind != wire.Seen {
		t.Fatalf("%v, %v", f.Kind, err)
	}
	var seen wire.SeenBody
	if err := wire.Decode(f, &seen); err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	is := wire.SeenFile{Dev: st.Dev, Ino: st.Ino}
	if len(seen.Files) != 3 || seen.Files[0] != is || seen.Files[2] != is || seen.Files[1] != (wire.SeenFile{Errno: int(syscall.ENOENT)}) {
		t.Errorf("seen %+v, want %+v", seen.Files, is)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || seen.Boot != strings.TrimSpace(string(boot)) {
		t.Errorf("kernel %q, want %q, %v", seen.Boot, boot, err)
	}
}

// A Look that no host may send ends the agent.
func TestInvalidLookEndsTheAgent(t *testing.T) {
	for name, body := range map[string]wire.LookBody{
		"relative path":  {Paths: []string{"workspace"}},
		"too many paths": {Paths: make([]string, wire.MaxLook+1)},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			h.sendJSON(wire.Look, wire.ID{}, body)
			if f, err := h.r.Read(); err == nil {
				t.Errorf("got %v", f.Kind)
			}
		})
	}
}
