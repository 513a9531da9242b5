//go:build linux

package agent

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxArgument is below the 128 KiB that Linux takes as one argument.
const maxArgument = 120 << 10

// shell is what runs commands.
type shell struct {
	path string
	bash bool
}

// findShell prefers bash, which is what people and models write for.
func findShell() shell {
	for _, path := range []string{"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"} {
		if unix.Access(path, unix.X_OK) == nil {
			return shell{path, true}
		}
	}
	return shell{"/bin/sh", false}
}

// command returns the arguments that make the shell run cmd. Where cmd is too
// long to be one of them it comes as a file, the child's descriptor fd; else
// script is -1.
func (s shell) command(cmd string, fd int) (argv []string, script int, err error) {
	if len(cmd) <= maxArgument {
		return []string{s.path, "-c", asArgument(cmd)}, -1, nil
	}
	script, err = memFile(cmd)
	// The text is read whole and its descriptor closed before any of it runs,
	// so that the command sees the same as if it had been an argument.
	read := `set -- "$(cat <&3)"; exec 3<&-; eval "shift; $1"`
	if s.bash {
		read = `set -- "$(</dev/fd/3)" "$@"; exec 3<&-; eval -- "shift; $1"`
	}
	return []string{s.path, "-c", strings.ReplaceAll(read, "3", strconv.Itoa(fd)), s.path}, script, err
}

// asArgument returns a command as an argument that is taken for no option.
func asArgument(cmd string) string {
	if strings.HasPrefix(cmd, "-") || strings.HasPrefix(cmd, "+") {
		return " " + cmd
	}
	return cmd
}

// memFile returns a file without a name that holds text.
func memFile(text string) (fd int, err error) {
	fd, err = unix.MemfdCreate("command", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	for at := 0; at < len(text); {
		n, err := unix.Pwrite(fd, []byte(text[at:]), int64(at)) // leaves the position at the start
		if err != nil && err != unix.EINTR {
			unix.Close(fd)
			return -1, err
		}
		at += max(n, 0)
	}
	return fd, nil
}
