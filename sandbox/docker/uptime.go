package docker

import (
	"fmt"
	"time"
)

// A moment is one that programs of one machine can tell each other, whatever
// becomes of the wall clock between them.
type moment struct {
	boot string        // since which it counts; it means nothing to another one
	at   time.Duration // in whole seconds
}

// wallClock is for systems that have no better one to share: who sets the clock
// there sets when a kept box is given up, unless its agent ends it before.
func wallClock() moment {
	return moment{"wall", time.Duration(time.Now().Unix()) * time.Second}
}

func (m moment) String() string { return fmt.Sprintf("%s %d", m.boot, m.at/time.Second) }

func (m moment) add(d time.Duration) moment { return moment{m.boot, m.at + d} }

// parseMoment reads what String wrote.
func parseMoment(s string) (m moment, ok bool) {
	var seconds int64
	n, _ := fmt.Sscanf(s, "%s %d", &m.boot, &seconds)
	m.at = time.Duration(seconds) * time.Second
	return m, n == 2 && m.String() == s
}
