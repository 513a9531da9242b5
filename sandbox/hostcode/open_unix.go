//go:build unix

package hostcode

import "syscall"

// Opening a named pipe in place of a file must not block a scan.
const (
	openNonblock  = syscall.O_NONBLOCK
	openDirectory = syscall.O_NONBLOCK | syscall.O_DIRECTORY
)
