//go:build unix

package hostcode

import "syscall"

// A named pipe in the place of a file must not hold a look up.
const (
	openNonblock  = syscall.O_NONBLOCK
	openDirectory = syscall.O_NONBLOCK | syscall.O_DIRECTORY
)
