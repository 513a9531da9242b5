package docker

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// holder returns the pid of the process that locked a file, 0 if it is unknown.
func holder(path string) int {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for line := range strings.Lines(string(locks)) { // "1: FLOCK ADVISORY WRITE 123 08:01:456 0 EOF"
		if f := strings.Fields(line); len(f) > 5 && f[1] == "FLOCK" && f[3] == "WRITE" && f[5] == file {
			pid, _ := strconv.Atoi(f[4])
			return max(0, pid)
		}
	}
	return 0
}
