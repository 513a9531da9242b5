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

// memoryEvents is the kernel's count of the processes of the box that it has killed
// for want of memory. It is the box's and not a run's, so each run has it read when
// it begins and when its shell ends: what happened before is not the run's. The
// file stays open, since to open it would take longer than to read it, which takes
// about a microsecond. Where there is none, the zero value, nothing is ever told.
type memoryEvents struct {
	file int // 0: none
}

// unread stands for a count that cannot be read.
const unread = -1

// open opens the file, of either version of control groups.
func (m *memoryEvents) open(root string) {
	for _, name := range []string{"memory.events", "memory/memory.oom_control"} {
		fd, err := unix.Open(filepath.Join(root, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if m.file = fd; m.kills() != unread {
			return
		}
		unix.Close(fd) // a kernel before 4.13, whose file does not count
		m.file = 0
	}
}

// kills returns the count.
func (m *memoryEvents) kills() int {
	if m.file == 0 {
		return unread
	}
	var buf [1024]byte // a few lines of a word and a number
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

// roseAbove reports whether there are more than a count that was read before.
func (m *memoryEvents) roseAbove(before int) bool { return before != unread && m.kills() > before }

// others reports whether another run than this one has processes. The caller holds
// a.mu.
func (a *Agent) others(r *run) bool {
	for _, other := range a.runs {
		if other != r && !other.gone.Load() {
			return true
		}
	}
	return false
}

// sharedBox reports whether others had processes at any time since the run began,
// which the kernel may have killed as well as its own. The caller holds a.mu.
func (a *Agent) sharedBox(r *run) bool { return r.shared || a.begun != r.nth }
