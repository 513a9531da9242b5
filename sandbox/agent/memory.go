//go:build linux

package agent

import (
	"bytes"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// cgroupRoot is where engines mount the control group of a container.
const cgroupRoot = "/sys/fs/cgroup"

// memoryEvents reads the kernel's count of the processes of the box that it has killed
// because memory ran out. The count is per box, not per run, so it is read when a run
// begins and when its shell ends: earlier kills do not concern the run. The file stays
// open, since opening it takes longer than reading it, about a microsecond. Without the
// file, as in the zero value, no kill is ever reported.
type memoryEvents struct {
	file int // 0: none
}

// unread is the count if it cannot be read.
const unread = -1

// open opens the file of either version of control groups.
func (m *memoryEvents) open(root string) {
	for _, name := range []string{"memory.events", "memory/memory.oom_control"} {
		fd, err := unix.Open(filepath.Join(root, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if m.file = fd; m.kills() != unread {
			return
		}
		unix.Close(fd) // a kernel before 4.13, whose file has no count
		m.file = 0
	}
}

// kills returns the count.
func (m *memoryEvents) kills() int {
	if m.file == 0 {
		return unread
	}
	var buf [1024]byte // a few lines, each a word and a number
	n, err := unix.Pread(m.file, buf[:], 0)
	if err != nil {
		return unread
	}
	for line := range bytes.Lines(buf[:n]) {
		if count, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			if kills, err := strconv.Atoi(string(bytes.TrimSpace(count))); err == nil {
				return kills
			}
		}
	}
	return unread
}

// roseAbove reports whether the count has risen since it was read.
func (m *memoryEvents) roseAbove(before int) bool { return before != unread && m.kills() > before }

// others reports whether a run other than r has processes. The caller holds the lock.
func (a *Agent) others(r *run) bool {
	for _, other := range a.procs.runs {
		if other != r && !other.gone.Load() {
			return true
		}
	}
	return false
}

// sharedBox reports whether other runs had processes at any time since r began. The
// kernel may have killed one of theirs instead of r's. The caller holds the lock.
func (a *Agent) sharedBox(r *run) bool { return r.shared || a.procs.begun != r.nth }
