//go:build unix

package docker

import (
	"os"
	"syscall"
)

// fileOwner returns the owner of a directory, 0 if that is unknown.
func fileOwner(dir string) (uid, gid int) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, 0
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return int(st.Uid), int(st.Gid)
}
