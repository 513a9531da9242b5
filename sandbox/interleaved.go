package sandbox

import "github.com/warmbox/warmbox/sandbox/excerpt"

// Interleaved returns both streams of a failed run as one text, by arrival. stdout and stderr
// are what Output returned of them. It reports false unless they are all that the run printed,
// with nothing masked: a secret that the other stream interrupts has no recognizable form, and
// two halves that the streams print in turn may look like one.
func (r *Run) Interleaved(stdout, stderr string) (text string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	early := &r.digest.early
	if !early.Mixed() {
		return "", false
	}
	streams := early.Streams()
	if asShown(streams[0]) != stdout || asShown(streams[1]) != stderr {
		return "", false
	}
	both := asShown(early.Text())
	return both, r.secrets.Text(both) == both
}

// asShown returns the text that is shown of an output without secrets.
func asShown(p []byte) string { return excerpt.Inert(excerpt.Settle(p)) }
