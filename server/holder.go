package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A holder is whoever was given one of the tokens. Sessions are a holder's, so
// those of one do not exist for another, and however many one of them opens, it
// pushes out only its own.
type holder struct {
	name     string
	token    [sha256.Size]byte // its hash
	sessions *sessions
	rate     *bucket // of its requests
}

// holder finds out whose token a request shows, nil where it is nobody's. Every
// token is compared, by hashes of one length: so the time it takes tells
// neither a token, nor its length, nor how many there are before it.
func (d *door) holder(r *http.Request) (found *holder) {
	shown := sha256.Sum256([]byte(bearer(r)))
	for _, h := range d.holders {
		if subtle.ConstantTimeCompare(h.token[:], shown[:]) == 1 {
			found = h
		}
	}
	return found
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// burst is for how many seconds' worth at once a bucket holds, where nobody
// took any for a while: a program that starts asks for much at once.
const burst = 5

// A bucket lets a number of requests a second pass, and a burst of them.
type bucket struct {
	perSecond float64

	mu     sync.Mutex
	filled time.Time // when left was right
	left   float64
}

func newBucket(perSecond int) *bucket {
	return &bucket{perSecond: float64(perSecond), filled: time.Now(), left: burst * float64(perSecond)}
}

// take reports whether one more may pass.
func (b *bucket) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.left = min(b.left+b.perSecond*now.Sub(b.filled).Seconds(), burst*b.perSecond)
	b.filled = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
