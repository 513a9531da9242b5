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

// tinyDisk mounts a file system of a size and a mode. When the test is over,
// nobody may have anything of it open any more.
func tinyDisk(t *testing.T, size, mode string) string {
	t.Helper()
	return tmpfs(t, "size="+size+",mode="+mode)
}

func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		if strings.Contains(os.Getenv("WARMBOX_REQUIRE"), "mount") {
			t.Fatal(err)
		}
		t.Skipf("a full disk takes a file system of its own, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("a file is still open: %v", err)
			syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	})
	return dir
}

// diskSession is a client's session with a server whose logs go to a tiny disk.
type diskSession struct {
	*testing.T
	p    *program
	logs string // the directory
}

// prints has a command print so many bytes and sees that it works as ever. The
// log must have all of it or say how much it has not.
func (s *diskSession) prints(size int, complete bool) {
	s.Helper()
	r, text := s.call("exec", map[string]any{"cmd": fmt.Sprintf("yes abcdefg | head -c %d; echo end >&2; exit 3", size)})
	size += len("end\n")
	stdout := fmt.Sprint(r["stdout"])
	if r["status"] != "exited" || r["exitCode"] != 3.0 || r["stderr"] != "end\n" || !strings.HasSuffix(stdout, "abcdefg\n") {
		s.Errorf("of %d bytes came %v", size, r)
	}
	kept := 0
	if path, ok := r["logPath"].(string); ok {
		log, err := os.ReadFile(path)
		if err != nil && complete {
			s.Error(err)
		}
		kept = len(log)
	}
	gap, incomplete := r["log"].(map[string]any)
	switch {
	case complete && (incomplete || kept != size):
		s.Errorf("of %d bytes the log has %d: %v", size, kept, gap)
	case !complete && (gap["complete"] != false || gap["lostBytes"] != float64(size-kept) || kept >= size || !strings.Contains(fmt.Sprint(gap["reason"]), s.logs)):
		s.Errorf("of %d bytes the log has %d, and it says %v", size, kept, gap)
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

func TestDiskOfLogs(t *testing.T) {
	disk := tinyDisk(t, "1m", "0700")
	s := &diskSession{T: t, logs: filepath.Join(disk, "logs")}
	s.p = serveHere(t, t.TempDir(), func(string) {}, "--log-dir", s.logs)
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
	t.Log("room again")
	s.prints(80_000, true)

	t.Log("directory gone")
	if err := os.RemoveAll(s.logs); err != nil {
		t.Fatal(err)
	}
	s.prints(80_000, true)

	// The server has files of the next runs open on its disk, which can for that
	// reason not be made read-only; another that is one takes its place.
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

// fill writes without an end, up to a hundred MB a second, and ignores who asks it
// to stop. So fast a look at the disk comes in time even on a loaded machine.
const fill = "trap '' TERM; while dd if=/dev/zero bs=2M count=1 2>/dev/null; do sleep 0.02; done >big"

// TestDiskOfWorkspace: what fills the disk of the workspace is killed before it
// is full, and what is left can be deleted.
func TestDiskOfWorkspace(t *testing.T) {
	for name, start := range map[string]func(*testing.T, ...string) *program{
		"docker": serve,
		"process": func(t *testing.T, flags ...string) *program {
			return serveHere(t, "", func(string) {}, flags...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			elsewhere := t.TempDir()
			if err := os.Chmod(elsewhere, 0o777); err != nil {
				t.Fatal(err)
			}
			other := &diskSession{T: t, p: start(t, "--workspace", elsewhere)}
			far, _ := other.call("exec", map[string]any{"cmd": "sleep 1000", "background": true})
			s := &diskSession{T: t}
			disk := tinyDisk(t, "256m", "0777")
			s.p = start(t, "--workspace", disk, "--min-free", "1g") // of which a twentieth of the disk holds
			s.fills(disk, fill)
			s.fills(disk, "setsid sh -c '"+strings.ReplaceAll(fill, "'", `'\''`)+"' 2>/dev/null & exec sleep 1000")
			if l, _ := other.call("logs", map[string]any{"execId": far["execId"]}); l["status"] != "running" {
				t.Errorf("what runs on another disk: %v", l)
			}
		})
	}
}

// fills has a command fill the disk, and makes room again.
func (s *diskSession) fills(disk, cmd string) {
	s.Helper()
	r, text := s.call("exec", map[string]any{"cmd": cmd})
	why := "the disk that " + disk + " of the user's machine is on has "
	if r["status"] != "killed" || !strings.Contains(text, why) || !strings.Contains(text, "12.8 MB are kept free") {
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

// TestFilesOfWorkspace: what uses up the files that the disk of the workspace can have
// is killed before there are none, whoever else has files there; what is left can be
// deleted.
func TestFilesOfWorkspace(t *testing.T) {
	for name, start := range map[string]func(*testing.T, ...string) *program{
		"docker": serve,
		"process": func(t *testing.T, flags ...string) *program {
			return serveHere(t, "", func(string) {}, flags...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := tmpfs(t, "size=256m,nr_inodes=40000,mode=0777")
			s := &diskSession{T: t, p: start(t, "--workspace", disk)}
			r, text := s.call("exec", map[string]any{"cmd": "trap '' TERM; mkdir many; cd many; i=0; while : >f$i; do i=$((i+1)); done; echo all are made"})
			why := "the disk that " + disk + " of the user's machine is on has room for "
			if r["status"] != "killed" || !strings.Contains(text, why) || !strings.Contains(text, " more files (inodes), and 2000 are kept free") {
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
			if r, _ := s.call("exec", map[string]any{"cmd": "rm -rf many"}); r["exitCode"] != 0.0 {
				t.Errorf("%v", r)
			}
			if r, _ := s.call("exec", map[string]any{"cmd": "echo x >small"}); r["exitCode"] != 0.0 {
				t.Errorf("%v", r)
			}
		})
	}
}
