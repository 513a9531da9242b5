package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	// few is how many of the first and of the last starts are looked at.
	few = 10

	// boxesPerClient is about how many boxes each client has.
	boxesPerClient = 50
)

// crowd is very many boxes of one server.
type crowd struct {
	*fleet
	engine *engine
	boxes  []string // that of number i is of client i % len(clients)
}

// reportMany tells what very many boxes cost that stand at once: whether the last
// is started as the first was, what each keeps of the machine's memory, and that
// commands in all of them at once answer each its own caller.
func reportMany(ctx context.Context, b *bed, out io.Writer) (err error) {
	f, err := newFleet(ctx, b.options, (b.boxes+boxesPerClient-1)/boxesPerClient)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	c := &crowd{fleet: f, engine: b.engine}
	server := memory(c.pid(), "VmRSS")
	times, err := c.fill(ctx, b.boxes)
	if err != nil {
		return err
	}
	row(out, fmt.Sprintf("%d boxes", b.boxes), "")
	row(out, fmt.Sprintf("start, the first %d, p50 ms", few), ms(p50(times[:min(few, len(times))])))
	row(out, fmt.Sprintf("start, the last %d, p50 ms", few), ms(p50(times[max(0, len(times)-few):])))
	if err := c.reportMemory(ctx, out, server); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		do   func(context.Context, int) error
	}{
		{"a command in each at once, s", c.answer},
		{"all stopped at once, s", func(ctx context.Context, i int) error { return c.of(i).stop(ctx, c.boxes[i]) }},
	} {
		begin := time.Now()
		if err := c.each(ctx, part.do); err != nil {
			return err
		}
		row(out, part.name, fmt.Sprintf("%.2f", time.Since(begin).Seconds()))
	}
	return c.reportLeft(ctx, out)
}

func (c *crowd) pid() int { return c.cmd.Process.Pid }

// of returns whose box it is.
func (c *crowd) of(i int) *server { return c.clients[i%len(c.clients)] }

// fill starts boxes one by one, and sees that each answers.
func (c *crowd) fill(ctx context.Context, n int) (times []time.Duration, err error) {
	for i := range n {
		begin := time.Now()
		id, err := c.of(i).start(ctx)
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(begin))
		c.boxes = append(c.boxes, id)
		if err := c.answer(ctx, i); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// answer has a box say a word that nobody else says.
func (c *crowd) answer(ctx context.Context, i int) error {
	word := fmt.Sprintf("%s of %d\n", c.boxes[i], i)
	r, err := c.of(i).exec(ctx, c.boxes[i], "printf '"+word+"'")
	if err == nil && (r.Stdout != word || r.ContainerID != c.boxes[i]) {
		err = fmt.Errorf("box %s was to say %q, and %s says %q", c.boxes[i], word, r.ContainerID, r.Stdout)
	}
	return err
}

// each does something with all boxes at once.
func (c *crowd) each(ctx context.Context, do func(context.Context, int) error) error {
	errs := make([]error, len(c.boxes))
	var all sync.WaitGroup
	for i := range c.boxes {
		all.Go(func() { errs[i] = do(ctx, i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// reportMemory tells what each box takes. The engine has a process for each
// container, its parent, and that one is told apart: any container costs it.
func (c *crowd) reportMemory(ctx context.Context, out io.Writer, before int64) error {
	pids, err := c.engine.inits(ctx, c.pid())
	if err != nil {
		return err
	}
	homes, err := c.engine.homes(ctx, c.boxes)
	if err != nil {
		return err
	}
	if len(pids) != len(c.boxes) || homes != len(c.boxes) {
		return fmt.Errorf("the engine has %d containers and %d homes for %d boxes", len(pids), homes, len(c.boxes))
	}
	var agents, own, shims int64
	for _, pid := range pids {
		agents += memory(pid, "VmRSS")
		own += memory(pid, "RssAnon")
		shims += memory(parent(pid), "VmRSS")
	}
	n, server := int64(len(pids)), memory(c.pid(), "VmRSS")
	row(out, "server, MB", megabytes(server))
	row(out, "a box: agent and server, MB", megabytes((agents+max(0, server-before))/n))
	row(out, "  agent, MB", megabytes(agents/n))
	row(out, "  agent, shared with no other, MB", megabytes(own/n))
	row(out, "  growth of the server, MB", megabytes(max(0, server-before)/n))
	row(out, "the engine's own for it, MB", megabytes(shims/n))
	return nil
}

// reportLeft sees that nothing is left of the boxes.
func (c *crowd) reportLeft(ctx context.Context, out io.Writer) error {
	left, err := c.engine.boxesOf(ctx, c.pid())
	if err != nil {
		return err
	}
	homes, err := c.engine.homes(ctx, c.boxes)
	if err != nil {
		return err
	}
	row(out, "containers, volumes left", strconv.Itoa(len(left)), strconv.Itoa(homes))
	row(out, "server afterwards, MB, its files", megabytes(memory(c.pid(), "VmRSS")), descriptors(c.pid()))
	return nil
}

// parent returns the pid of a process's parent, 0 where the system does not tell.
func parent(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // a name may have spaces
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(string(fields[1]))
	return n
}
