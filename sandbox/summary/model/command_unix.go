//go:build unix

package model

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a command start in its own process group, which is killed as a whole
// when its context ends.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// endGroup kills the remaining processes of a command's group. The kernel does not
// reuse the group's number while a process is in it.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // mostly the group is empty
	}
}
