//go:build linux

package agent

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxArgument is below the limit of Linux for one argument, 128 KiB.
const maxArgument = 120 << 10

// shell is the program that runs commands.
type shell struct {
	path string
	bash bool
}

// findShell returns bash if there is one, since people and models write for it.
func findShell() shell {
	for _, path := range []string{"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"} {
		if unix.Access(path, unix.X_OK) == nil {
			return shell{path, true}
		}
	}
	return shell{"/bin/sh", false}
}

// command returns the arguments that make the shell run cmd. If cmd is too long for one
// argument, it is passed as the file script, which becomes the child's descriptor fd;
// otherwise script is -1.
func (s shell) command(cmd string, fd int) (argv []string, script int, err error) {
	if len(cmd) <= maxArgument {
		return []string{s.path, "-c", asArgument(cmd)}, -1, nil
	}
	script, err = memFile(cmd)
	// The text is read completely and its descriptor closed before any of it runs, so
	// that the command sees the same as if it were an argument.
	read := `set -- "$(cat <&3)"; exec 3<&-; eval "shift; $1"`
	if s.bash {
		read = `set -- "$(</dev/fd/3)" "$@"; exec 3<&-; eval -- "shift; $1"`
	}
	return []string{s.path, "-c", strings.ReplaceAll(read, "3", strconv.Itoa(fd)), s.path}, script, err
}

// asArgument returns a command as an argument that is not parsed as an option.
func asArgument(cmd string) string {
	if strings.HasPrefix(cmd, "-") || strings.HasPrefix(cmd, "+") {
		return " " + cmd
	}
	return cmd
}

// memFile returns an unnamed file that contains text.
func memFile(text string) (fd int, err error) {
	fd, err = unix.MemfdCreate("command", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	for at := 0; at < len(text); {
		n, err := unix.Pwrite(fd, []byte(text[at:]), int64(at)) // leaves the file offset at the start
		if err != nil && err != unix.EINTR {
			unix.Close(fd)
			return -1, err
		}
		at += max(n, 0)
	}
	return fd, nil
}
