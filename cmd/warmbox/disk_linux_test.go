package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tmpfs mounts a file system that belongs to the user. At the end of the test no file
// on it may be open. Only root can mount.
func (h home) tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := h.mkdir(t, "disk")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options+",mode=0700"); err != nil {
		if strings.Contains(os.Getenv("WARMBOX_REQUIRE"), "mount") {
			t.Fatal(err)
		}
		t.Skipf("needs a file system of its own, which only root can mount: %v", err)
	}
	if err := h.own(dir); err != nil {
		t.Error(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("a file is still open: %v", err)
			syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	})
	return dir
}

// diskSession is a client's session with a server whose logs or workspace are on a
// small disk.
type diskSession struct {
	*testing.T
	p    *program
	logs string // the directory
}

// prints runs a command that prints a number of bytes, and checks its result. The log
// must have all of them, or say how many it lacks.
func (s *diskSession) prints(size int, complete bool) {
	s.Helper()
	r, text := s.call("exec", map[string]any{"cmd": fmt.Sprintf("yes abcdefg | head -c %d; echo end >&2; exit 3", size)})
	size += len("end\n")
	stdout := fmt.Sprint(r["stdout"])
	if r["status"] != "exited" || r["exitCode"] != 3.0 || r["stderr"] != "end\n" || !strings.HasSuffix(stdout, "abcdefg\n") {
		s.Errorf("a command that prints %d bytes: %v", size, r)
	}
	logged := 0
	if path, ok := r["logPath"].(string); ok {
		log, err := os.ReadFile(path)
		if err != nil && complete {
			s.Error(err)
		}
		logged = len(log)
	}
	gap, incomplete := r["log"].(map[string]any)
	switch {
	case complete && (incomplete || logged != size):
		s.Errorf("of %d bytes the log has %d: %v", size, logged, gap)
	case !complete && (gap["complete"] != false || gap["lostBytes"] != float64(size-logged) || logged >= size || !strings.Contains(fmt.Sprint(gap["reason"]), s.logs)):
		s.Errorf("of %d bytes the log has %d, and it says %v", size, logged, gap)
	}
	l, later := s.call("logs", map[string]any{"execId": r["execId"], "tail": 1})
	if l["exitCode"] != 3.0 || l["totalBytes"] != float64(size) || fmt.Sprint(l["log"]) != fmt.Sprint(r["log"]) {
		s.Errorf("logs says %v, exec said %v", l, r["log"])
	}
	for _, text := range []string{text, later} {
		if says := strings.Contains(text, "\nlog incomplete: "); says == complete {
			s.Errorf("%s", text)
		}
	}
}

func (s *diskSession) call(name string, args map[string]any) (fields map[string]any, text string) {
	s.Helper()
	r, err := s.p.CallTool(s.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		s.Fatal(err)
	}
	return r.StructuredContent.(map[string]any), r.Content[0].(*mcp.TextContent).Text
}

// TestLogDiskFailuresDoNotFailCommands has the disk of the logs full, without its
// directory and read-only. Commands work, and each log says what it lacks. The steps
// follow one another, since one server must get over each of them.
func TestLogDiskFailuresDoNotFailCommands(t *testing.T) {
	needAgent(t)
	h := newHome(t)
	disk := h.tmpfs(t, "size=1m")
	s := &diskSession{T: t, logs: filepath.Join(disk, "logs")}
	s.p = h.serve(t, append([]string{"--workspace", h.mkdir(t, "work"), "--log-dir", s.logs}, processBackend...)...)
	s.prints(80_000, true)

	t.Log("full")
	s.prints(3_000_000, false)
	s.prints(80, false)
	s.prints(800_000, false)
	files, err := filepath.Glob(filepath.Join(s.logs, "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		os.Remove(file)
	}
	t.Log("free again")
	s.prints(80_000, true)

	t.Log("directory gone")
	if err := os.RemoveAll(s.logs); err != nil {
		t.Fatal(err)
	}
	s.prints(80_000, true)

	// The server has files of the next runs open, so the disk cannot be made read-only.
	// Another one is mounted over it.
	t.Log("read-only")
	if err := syscall.Mount("none", disk, "tmpfs", syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	s.prints(80_000, false)
	if err := syscall.Unmount(disk, 0); err != nil {
		t.Fatal(err)
	}
	s.prints(80_000, true)
}

// fill writes without an end, at most 100 MB a second, and ignores SIGTERM. At that
// rate the server checks the disk in time even on a loaded machine.
const fill = "trap '' TERM; while dd if=/dev/zero bs=2M count=1 2>/dev/null; do sleep 0.02; done >big"

// eachBackend runs a test on each backend, with the flags for it.
func eachBackend(t *testing.T, test func(t *testing.T, h home, flags []string)) {
	t.Run("docker", func(t *testing.T) {
		needDocker(t)
		test(t, newHome(t), nil)
	})
	t.Run("process", func(t *testing.T) {
		needAgent(t)
		test(t, newHome(t), processBackend)
	})
}

// TestCommandThatFillsTheWorkspaceDiskIsKilled checks that a command is killed before
// it has filled the disk of the workspace, that commands on other disks go on, and that
// its files can be deleted.
func TestCommandThatFillsTheWorkspaceDiskIsKilled(t *testing.T) {
	eachBackend(t, func(t *testing.T, h home, flags []string) {
		other := &diskSession{T: t, p: h.serve(t, append(flags, "--workspace", h.mkdir(t, "elsewhere"))...)}
		far, _ := other.call("exec", map[string]any{"cmd": "sleep 1000", "background": true})
		s := &diskSession{T: t}
		disk := h.tmpfs(t, "size=256m")
		s.p = h.serve(t, append(flags, "--workspace", disk, "--min-free", "1g")...) // at most a twentieth of the disk
		s.fills(disk, fill)
		s.fills(disk, "setsid sh -c '"+strings.ReplaceAll(fill, "'", `'\''`)+"' 2>/dev/null & exec sleep 1000")
		if l, _ := other.call("logs", map[string]any{"execId": far["execId"]}); l["status"] != "running" {
			t.Errorf("a command on another disk: %v", l)
		}
	})
}

// fills runs a command that fills the disk, then deletes what it wrote.
func (s *diskSession) fills(disk, cmd string) {
	s.Helper()
	r, text := s.call("exec", map[string]any{"cmd": cmd})
	why := "the disk of " + disk + " on the user's machine has "
	if r["status"] != "killed" || !strings.Contains(text, why) || !strings.Contains(text, "12.8 MB must stay free") {
		s.Fatalf("%s", text)
	}
	var stat syscall.Statfs_t
	if err := syscall.Statfs(disk, &stat); err != nil || stat.Bavail == 0 {
		s.Errorf("%d blocks are free, %v", stat.Bavail, err)
	}
	if r, _ := s.call("exec", map[string]any{"cmd": "echo x >small"}); r["code"] != "LIMIT_REACHED" || !strings.Contains(fmt.Sprint(r["error"]), why) {
		s.Errorf("%v", r)
	}
	if r, _ := s.call("exec", map[string]any{"cmd": "ls -l && rm big"}); r["exitCode"] != 0.0 || !strings.Contains(fmt.Sprint(r["stdout"]), " big\n") {
		s.Errorf("%v", r)
	}
	if r, _ := s.call("exec", map[string]any{"cmd": "echo x >small; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c [b]s=2M"}); r["stdout"] != "0\n" {
		s.Errorf("%v", r)
	}
}

// TestCommandThatUsesUpInodesIsKilled checks that a command is killed before the disk
// of the workspace has no inodes left, whatever other files are on the disk, and that
// its files can be deleted.
func TestCommandThatUsesUpInodesIsKilled(t *testing.T) {
	eachBackend(t, func(t *testing.T, h home, flags []string) {
		disk := h.tmpfs(t, "size=256m,nr_inodes=40000")
		s := &diskSession{T: t, p: h.serve(t, append(flags, "--workspace", disk)...)}
		r, text := s.call("exec", map[string]any{"cmd": "trap '' TERM; mkdir many; cd many; i=0; while : >f$i; do i=$((i+1)); ((i % 400)) || sleep 0.02; done; echo all are made"})
		why := "the disk of " + disk + " on the user's machine has room for "
		if r["status"] != "killed" || !strings.Contains(text, why) || !strings.Contains(text, " more files (inodes), and room for 2000 must stay free") {
			t.Fatalf("%s", text)
		}
		var stat syscall.Statfs_t
		if err := syscall.Statfs(disk, &stat); err != nil || stat.Ffree == 0 {
			t.Errorf("%d files are free, %v", stat.Ffree, err)
		}
		if err := os.WriteFile(filepath.Join(disk, "of the host"), nil, 0o600); err != nil {
			t.Error(err)
		}
		if r, _ := s.call("exec", map[string]any{"cmd": "echo x >small"}); r["code"] != "LIMIT_REACHED" || !strings.Contains(fmt.Sprint(r["hint"]), "df -i") {
			t.Errorf("%v", r)
		}
		for _, cmd := range []string{"rm -rf many", "echo x >small"} {
			if r, _ := s.call("exec", map[string]any{"cmd": cmd}); r["exitCode"] != 0.0 {
				t.Errorf("%s: %v", cmd, r)
			}
		}
	})
}
