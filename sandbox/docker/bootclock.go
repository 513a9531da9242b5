package docker

import (
	"fmt"
	"time"
)

// A bootTime is a time since the machine was booted, which processes can exchange
// whatever happens to the wall clock.
type bootTime struct {
	boot string        // identifies the boot; times of two boots cannot be compared
	at   time.Duration // in whole seconds
}

// wallClock is for systems that have no better shared clock. There a change of the
// clock also changes when the reattach timeout of a box ends.
func wallClock() bootTime {
	return bootTime{"wall", time.Duration(time.Now().Unix()) * time.Second}
}

func (t bootTime) String() string { return fmt.Sprintf("%s %d", t.boot, t.at/time.Second) }

func (t bootTime) add(d time.Duration) bootTime { return bootTime{t.boot, t.at + d} }

// parseBootTime reads what String wrote.
func parseBootTime(s string) (t bootTime, ok bool) {
	var seconds int64
	n, _ := fmt.Sscanf(s, "%s %d", &t.boot, &seconds)
	t.at = time.Duration(seconds) * time.Second
	return t, n == 2 && t.String() == s
}
