//go:build unix

package main

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
