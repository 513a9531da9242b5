package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// ordinaryUser is the user whom the program runs as where root runs the tests.
const ordinaryUser = 1000

// asOrdinaryUser has a command run as the ordinary user, with the engine's group.
// It changes nothing where the tests do not run as root.
func asOrdinaryUser(cmd *exec.Cmd) {
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser, Groups: engineGroups(cmd.Environ())}}
	}
}

// engineGroups returns the group that may use the engine's socket.
func engineGroups(env []string) []uint32 {
	socket := "/var/run/docker.sock"
	for _, v := range env { // the last one counts
		if path, ok := strings.CutPrefix(v, "DOCKER_HOST=unix://"); ok {
			socket = path
		}
	}
	info, err := os.Stat(socket)
	if err != nil {
		return nil // a test that needs an engine reports it
	}
	return []uint32{info.Sys().(*syscall.Stat_t).Gid}
}

// own gives a path, and everything below it, to the user.
func (h home) own(path string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, ordinaryUser, ordinaryUser))
	})
}

// TestServerRunsAsOrdinaryUser checks that root's tests run the program as an
// ordinary user, and that commands then make files of that user's.
func TestServerRunsAsOrdinaryUser(t *testing.T) {
	needDocker(t)
	h := newHome(t)
	p := h.serve(t, "--workspace", h.mkdir(t, "project"))
	if r := p.call(t, "exec", map[string]any{"cmd": "id -u; touch made"}); r["exitCode"] != 0.0 {
		t.Fatalf("%v", r)
	}
	info, err := os.Stat(filepath.Join(h.dir, "project", "made"))
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; os.Getuid() == 0 && uid != ordinaryUser {
		t.Errorf("the file that a command made belongs to uid %d, want %d", uid, ordinaryUser)
	}
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status"))
	if err != nil || os.Getuid() == 0 && !strings.Contains(string(status), "\nUid:\t1000\t1000\t1000\t1000\n") {
		t.Errorf("the server runs as another user: %v\n%s", err, status)
	}
}
