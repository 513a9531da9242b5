//go:build linux

package agent

import (
	"io"
	"sync"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// An outbox sends frames to the attached host. The zero outbox has no host yet.
type outbox struct {
	mu      sync.Mutex // held for the write of one frame; guards the other fields
	stream  io.Writer
	delayed []byte // frames to send with the next one
}

// attach makes stream the one that frames are written to.
func (o *outbox) attach(stream io.Writer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stream = stream
}

// send writes one frame. An error means that the stream is broken, which the read loop
// sees too.
func (o *outbox) send(frame []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.delayed) > 0 {
		frame = append(o.delayed, frame...)
		o.delayed = o.delayed[:0]
	}
	_, err := o.stream.Write(frame)
	return err
}

// host returns the stream to the attached host.
func (o *outbox) host() io.Writer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stream
}

// sendTo writes one frame if host is still the attached one.
func (o *outbox) sendTo(host io.Writer, frame []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stream != host {
		return io.ErrClosedPipe
	}
	_, err := o.stream.Write(frame)
	return err
}

// sendLater queues a frame to be sent with the next one or by flush. Each write wakes the
// host, which then uses a processor that the command could use.
func (o *outbox) sendLater(frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.delayed = append(o.delayed, frame...)
}

// flush sends the queued frames.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.delayed) > 0 {
		o.stream.Write(o.delayed) // the read loop sees an error too
		o.delayed = o.delayed[:0]
	}
}

func (o *outbox) sendJSON(kind wire.Kind, run wire.ID, body any) error {
	frame, err := wire.AppendJSON(nil, kind, run, body)
	if err != nil {
		return err
	}
	return o.send(frame)
}
