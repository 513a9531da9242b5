package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
)

const (
	// few is how many of the first and of the last starts are compared.
	few = 10

	// boxesPerClient is the approximate number of boxes of each client. More boxes need
	// more clients, since one client may have only a limited number of calls in flight.
	boxesPerClient = 50
)

// A fleet is very many boxes of one server and several clients.
type fleet struct {
	*server
	engine  *engine
	clients []*client.Client
	boxes   []string // box i belongs to client i % len(clients)
	table   table
}

// Boxes measures what very many concurrent boxes cost: whether the last one starts as
// fast as the first, the memory of each, whether concurrent commands in all of them
// reply to the right callers, and what a command costs beside so many.
func (b *Bench) Boxes(ctx context.Context, n int, out io.Writer) (err error) {
	if b.Engine == "" {
		return errors.New("Boxes needs an engine")
	}
	d, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	t := &fleet{}
	if t.engine, err = dial(b.Engine); err != nil {
		return err
	}
	defer t.engine.client.Close()
	most := strconv.Itoa(max(n, 256))
	if t.server, err = b.serve(ctx, "http", "--workspace=", "--max-boxes="+most, "--exec-max-runs="+most); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.measure(ctx, d, n); err != nil {
		return err
	}
	_, err = io.WriteString(out, t.table.text.String())
	return err
}

func (t *fleet) measure(ctx context.Context, d *bed, n int) error {
	alone, err := d.beside(ctx)
	if err != nil {
		return err
	}
	before := memory(t.pid(), "VmRSS")
	d.progress.step(fmt.Sprintf("starting %d boxes", n))
	took, err := t.fill(ctx, n)
	if err != nil {
		return err
	}
	together, err := d.beside(ctx)
	if err != nil {
		return err
	}
	t.table.row(fmt.Sprintf("%d boxes", n), "")
	t.table.row(fmt.Sprintf("  start, the first %d, p50 ms", few), number(millis(percentile(took[:min(few, len(took))], 50))))
	t.table.row(fmt.Sprintf("  start, the last %d, p50 ms", few), number(millis(percentile(took[max(0, len(took)-few):], 50))))
	t.table.row("  true, × local, with none beside", number(alone))
	t.table.row("  true, × local, with all beside", number(together))
	if err := t.reportMemory(ctx, before); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		do   func(context.Context, int) error
	}{
		{"a command in each at once", t.answer},
		{"all stopped at once", func(ctx context.Context, i int) error { return stop(ctx, t.of(i), t.boxes[i]) }},
	} {
		d.progress.step(part.name)
		begin := time.Now()
		if err := t.each(ctx, part.do); err != nil {
			return err
		}
		t.table.row("  "+part.name+", s", fmt.Sprintf("%.2f", time.Since(begin).Seconds()))
	}
	return t.reportLeft(ctx)
}

// beside returns what a command costs in the bed's own box.
func (d *bed) beside(ctx context.Context) (float64, error) {
	all, err := interleave(ctx, d.light("true"), d.plan.light)
	if err != nil {
		return 0, err
	}
	return ratio(all[1].did, all[0].did), nil
}

// of returns the client of a box.
func (t *fleet) of(i int) *client.Client { return t.clients[i%len(t.clients)] }

// fill starts boxes one by one, and checks that each replies.
func (t *fleet) fill(ctx context.Context, n int) (took []time.Duration, err error) {
	for i := range (n + boxesPerClient - 1) / boxesPerClient {
		c, err := t.newClient(ctx, fmt.Sprint("bench", i))
		if err != nil {
			return nil, err
		}
		t.clients = append(t.clients, c)
	}
	for i := range n {
		begin := time.Now()
		id, err := start(ctx, t.of(i))
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
		t.boxes = append(t.boxes, id)
		if err := t.answer(ctx, i); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// answer runs a command with unique output in a box, and checks the reply.
func (t *fleet) answer(ctx context.Context, i int) error {
	word := fmt.Sprintf("%s of %d\n", t.boxes[i], i)
	r, err := run(ctx, t.of(i), t.boxes[i], "printf '"+word+"'")
	if err != nil {
		return err
	}
	a, err := read(r)
	if err == nil && (a.Stdout != word || a.ContainerID != t.boxes[i]) {
		err = fmt.Errorf("box %s should print %q, but box %s printed %q", t.boxes[i], word, a.ContainerID, a.Stdout)
	}
	return err
}

// each calls do for all boxes concurrently.
func (t *fleet) each(ctx context.Context, do func(context.Context, int) error) error {
	errs := make([]error, len(t.boxes))
	var all sync.WaitGroup
	for i := range t.boxes {
		all.Go(func() { errs[i] = do(ctx, i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// reportMemory reports the memory of each box. The engine has a process for each
// container, the parent of the agent, which is reported apart: any container needs it.
func (t *fleet) reportMemory(ctx context.Context, before int64) error {
	pids, err := t.engine.inits(ctx, t.pid())
	if err != nil {
		return err
	}
	homes, err := t.engine.homes(ctx, t.boxes)
	if err != nil {
		return err
	}
	if len(pids) != len(t.boxes) || homes != len(t.boxes) {
		return fmt.Errorf("the engine has %d containers and %d homes for %d boxes", len(pids), homes, len(t.boxes))
	}
	var agents, own, spares, shims int64
	for _, pid := range pids {
		agents += memory(pid, "VmRSS")
		own += memory(pid, "RssAnon")
		shims += memory(parent(pid), "VmRSS")
		for _, shell := range children(pid) {
			spares += memory(shell, "RssAnon")
		}
	}
	n, server := int64(len(pids)), memory(t.pid(), "VmRSS")
	t.table.row("  server, MB", megabytes(server))
	t.table.row("  each box: agent, MB", megabytes(agents/n))
	t.table.row("    shared with no other, MB", megabytes(own/n))
	t.table.row("    its spare shells, likewise, MB", megabytes(spares/n))
	t.table.row("    growth of the server, MB", megabytes(max(0, server-before)/n))
	t.table.row("    the engine's own for it, MB", megabytes(shims/n))
	return nil
}

// reportLeft counts what is left of the boxes.
func (t *fleet) reportLeft(ctx context.Context) error {
	left, err := t.engine.boxesOf(ctx, t.pid())
	if err != nil {
		return err
	}
	homes, err := t.engine.homes(ctx, t.boxes)
	if err != nil {
		return err
	}
	t.table.row("  containers, volumes left", strconv.Itoa(len(left)), strconv.Itoa(homes))
	t.table.row("  server afterwards, MB, its files", megabytes(memory(t.pid(), "VmRSS")), descriptors(t.pid()))
	return nil
}

func (t *fleet) close() error {
	var errs []error
	for _, c := range t.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, t.server.close())...)
}
