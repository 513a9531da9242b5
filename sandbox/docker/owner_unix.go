//go:build unix

package docker

import (
	"os"
	"syscall"
)

// owner returns whose a directory is, 0 where that cannot be said.
func owner(dir string) (uid, gid int) {
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
