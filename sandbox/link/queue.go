package link

import "sync"

// A queue sends frames in their order from a goroutine of its own, which runs while
// there are any.
type queue struct {
	send func([]byte) error

	mu      sync.Mutex
	frames  []byte // not sent yet
	sending bool   // the goroutine runs

	running sync.WaitGroup
}

// Add queues a frame.
func (q *queue) Add(frame []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.frames = append(q.frames, frame...)
	if !q.sending {
		q.sending = true
		q.running.Go(q.run)
	}
}

// Wait waits until nothing is queued.
func (q *queue) Wait() { q.running.Wait() }

func (q *queue) run() {
	for {
		q.mu.Lock()
		frames := q.frames
		q.frames = nil
		q.sending = len(frames) > 0
		q.mu.Unlock()
		if len(frames) == 0 || q.send(frames) != nil {
			return // sending stays set after an error: the stream is broken for good
		}
	}
}
