package tools

import (
	"context"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// quietTime is how long a command at a terminal prints nothing until a call takes it to wait
// for input. A program that computes for longer than this between two outputs is taken for
// one that waits; the caller then follows it, as after any other wait.
const quietTime = 300 * time.Millisecond

const (
	// firstOutput is how long the reply to the start of a background command waits for
	// its first output. By then most servers say that they listen, or why they cannot,
	// and most programs ask their question.
	firstOutput = 500 * time.Millisecond

	// quietStart is how long a background command prints nothing after its first output
	// until the reply stops waiting for more of it.
	quietStart = 100 * time.Millisecond
)

// quiet tells when a command has printed something and is then silent for a time. Both
// channels of the zero value block forever.
type quiet struct {
	run     *sandbox.Run
	time    time.Duration
	from    int64           // bytes that were printed before
	changed <-chan struct{} // restart must be called when it is closed
	over    <-chan time.Time
	timer   *time.Timer
}

// quietFrom begins when a command has printed so many bytes, which do not count.
func quietFrom(run *sandbox.Run, from int64, silence time.Duration) quiet {
	q := quiet{run: run, from: from, time: silence}
	q.restart()
	return q
}

// restart waits for further output, and if there is some, for the silence after it.
func (q *quiet) restart() {
	q.changed = q.run.Changed() // before the size is read, so that no output is missed
	q.stop()
	if q.run.LogStats().Bytes > q.from {
		q.timer = time.NewTimer(q.time)
		q.over = q.timer.C
	}
}

func (q *quiet) stop() {
	if q.timer != nil {
		q.timer.Stop()
	}
}

// printed is what a command at a terminal prints without having answered: what it printed
// before, and the echo of the lines that were typed.
type printed struct {
	bytes int64
	lines int
}

// awaitQuiet returns when a command at a terminal has printed more than before and the echo,
// and is silent after it, when it has ended, or when the wait is over.
func awaitQuiet(ctx context.Context, run *sandbox.Run, before printed, wait time.Duration, progress func(string)) {
	limit := time.NewTimer(wait)
	defer limit.Stop()
	tick := time.NewTicker(nextProgress)
	defer tick.Stop()
	q := quietFrom(run, before.bytes, quietTime)
	defer func() { q.stop() }()
	for {
		select {
		case <-q.changed:
			q.restart()
		case <-q.over:
			if !run.Echoed(before.lines) {
				return
			}
		case <-run.Done():
			return
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
			if progress != nil {
				progress(progressLine(run))
			}
		}
	}
}
