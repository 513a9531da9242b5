package isolate

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// closeOnExec keeps descriptors that the process inherited from its children. It
// needs Linux 5.11; before that, children inherit them.
func closeOnExec() { unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) }

// resetMask sets the usual mask: some tests share files between users, and some
// compare modes.
func resetMask() { syscall.Umask(0o022) }
