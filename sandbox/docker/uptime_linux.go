package docker

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot tells the time of a clock that nobody sets, and which goes on while
// the machine sleeps.
func sinceBoot() moment {
	var at unix.Timespec
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &at) != nil {
		return wallClock()
	}
	return moment{strings.TrimSpace(string(id)), time.Duration(at.Nano()).Truncate(time.Second)}
}
