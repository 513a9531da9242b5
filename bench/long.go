package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// watched is the pace of each measurement in a long run.
var watched = pace{warm: 3, rounds: 100, most: time.Minute}

// longParts is the number of measurements in a long run, besides the one at its
// beginning.
const longParts = 4

// Long runs very many short commands in one box. At several points it measures what a
// command costs, compared with a local shell, and the memory of server and agent: the
// last figures should equal the first.
func (b *Bench) Long(ctx context.Context, n int, out io.Writer) (err error) {
	d, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	agent := d.agentPid(ctx)
	t := &table{}
	t.row(fmt.Sprintf("%d × true in one box", n), "ratio", "p50 ms", "server MB", "its files", "agent MB")
	for done := 0; ; done += n / longParts {
		d.progress.step(fmt.Sprintf("after %d", done))
		all, err := interleave(ctx, d.light("true"), watched)
		if err != nil {
			return err
		}
		t.row("  after "+strconv.Itoa(done), number(ratio(all[1].did, all[0].did))+" ×", number(millis(percentile(all[1].did, 50))),
			megabytes(memory(d.stdio.pid(), "VmRSS")), descriptors(d.stdio.pid()), megabytes(memory(agent, "VmRSS")))
		if done >= n/longParts*longParts {
			_, err := io.WriteString(out, t.text.String())
			return err
		}
		for range n/longParts - watched.rounds - watched.warm {
			if _, err := run(ctx, d.stdio.session, d.box, "true"); err != nil {
				return err
			}
		}
	}
}
