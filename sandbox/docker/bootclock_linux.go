package docker

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootClock reads a clock that no user can set, and which continues while the machine
// sleeps.
func bootClock() bootTime {
	var at unix.Timespec
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &at) != nil {
		return wallClock()
	}
	return bootTime{strings.TrimSpace(string(id)), time.Duration(at.Nano()).Truncate(time.Second)}
}
