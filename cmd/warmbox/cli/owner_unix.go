//go:build unix

package cli

import (
	"os"
	"syscall"
)

// owner returns whom a file belongs to.
func owner(info os.FileInfo) (uid int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}

// ownerGroup returns a file's group.
func ownerGroup(info os.FileInfo) (gid int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Gid), true
}

// linkCount returns how many names a file has.
func linkCount(info os.FileInfo) (links uint64, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(stat.Nlink), true
}
