//go:build unix

package hostpath

import (
	"fmt"
	"io/fs"
	"syscall"
)

// identify returns the ID and the owner of a file.
func identify(name string, info fs.FileInfo) (id ID, uid, gid int, err error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id, 0, 0, fmt.Errorf("%s: the system reports no device and inode", name)
	}
	return ID{uint64(st.Dev), uint64(st.Ino)}, int(st.Uid), int(st.Gid), nil
}
