package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
)

// window is how many rounds of a long run are measured at a time.
const window = 100

// reportLong runs very many short commands in one box, and tells at five times on
// the way what one costs beside a local shell, and what server and agent hold: the
// last must be as the first.
func reportLong(ctx context.Context, b *bed, out io.Writer) error {
	agent, err := b.engine.initPid(ctx, b.box)
	if err != nil {
		return err
	}
	ways := b.ways("true")[:2]
	warm := ways[1]
	row(out, fmt.Sprintf("%d × true in one box, after", b.long), "p50 ms", "local", "× local", "server MB", "its files", "agent MB", "its files")
	const parts = 4
	for done := 0; ; done += b.long / parts {
		times, err := interleave(ctx, ways, window)
		if err != nil {
			return err
		}
		local, ours := p50(times[0]), p50(times[1])
		row(out, strconv.Itoa(done), ms(ours), ms(local), ratio(ours, local),
			megabytes(memory(b.server.pid, "VmRSS")), descriptors(b.server.pid), megabytes(memory(agent, "VmRSS")), descriptors(agent))
		if done >= b.long/parts*parts {
			return nil
		}
		for range b.long/parts - window - warmUps {
			if err := warm.do(ctx); err != nil {
				return err
			}
		}
	}
}

// descriptors counts the open files of a process; "?" where we may not look.
func descriptors(pid int) string {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return "?"
	}
	return strconv.Itoa(len(list))
}
