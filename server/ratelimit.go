package server

import (
	"sync"
	"time"
)

// burst is how many seconds' worth of requests a rateLimiter admits at once after a quiet
// time: a program that starts sends many requests at once.
const burst = 5

// A rateLimiter admits a number of requests a second, and bursts of them: a token bucket.
type rateLimiter struct {
	perSecond float64

	mu     sync.Mutex
	filled time.Time // when left was right
	left   float64
}

func newRateLimiter(perSecond int) *rateLimiter {
	return &rateLimiter{perSecond: float64(perSecond), filled: time.Now(), left: burst * float64(perSecond)}
}

// allow reports whether one more request is admitted, and counts it.
func (l *rateLimiter) allow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.left = min(l.left+l.perSecond*now.Sub(l.filled).Seconds(), burst*l.perSecond)
	l.filled = now
	if l.left < 1 {
		return false
	}
	l.left--
	return true
}
