package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

// starts compares the start of a box with the minimum that an engine needs for a
// container of the same image, and its stop with a forced removal. Neither has a
// network: creating one takes an engine longer than the rest.
func (d *bed) starts(ctx context.Context, r *Report) (err error) {
	if d.engine == nil {
		return nil
	}
	d.progress.step("start and stop of a new box")
	s, err := d.serve(ctx, "stdio", "--workspace=")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var container, box string
	ways := []way{
		{
			name: "engine API: create, start",
			do: func(ctx context.Context) (err error) {
				container, err = d.engine.start(ctx)
				return err
			},
			undo: func(ctx context.Context) error { return d.engine.remove(ctx, container) },
		},
		{
			name: wayStdio,
			do: func(ctx context.Context) (err error) {
				box, err = start(ctx, s.session)
				return err
			},
			undo: func(ctx context.Context) error { return stop(ctx, s.session, box) },
		},
	}
	all, err := interleave(ctx, ways, d.plan.starts)
	if err != nil {
		return err
	}
	stops := groupOf("stop", ways, undid(all))
	stops.Base, stops.Rows[0].Way = "engine API: remove", "engine API: remove"
	r.Starts = append(r.Starts, groupOf("start, empty pool", ways, did(all)), stops)
	return nil
}

// firstCalls measures the first call of a client to a server with a box in the pool.
// Each round has a new server.
func (d *bed) firstCalls(ctx context.Context, r *Report) error {
	if d.engine == nil || !hasDocker() {
		return nil
	}
	d.progress.step("start with a box in the pool")
	var s *server
	open := func(ctx context.Context) (err error) {
		s, err = d.pooledServer(ctx)
		return err
	}
	end := func(context.Context) error { return s.close() }
	g, err := d.compare(ctx, "start, box in the pool", []way{
		{name: wayRun, do: program("docker", d.engine.runArgs("true")...)},
		{name: "warmbox, start", prepare: open, undo: end, do: func(ctx context.Context) error {
			_, err := start(ctx, s.session)
			return err
		}},
		{name: "warmbox, the first exec: true", prepare: open, undo: end, do: func(ctx context.Context) error {
			_, err := run(ctx, s.session, "", "true")
			return err
		}},
	}, d.plan.first)
	if err == nil {
		r.Starts = append(r.Starts, g)
	}
	return err
}

// pooledServer returns a server with an idle box in its pool.
func (d *bed) pooledServer(ctx context.Context) (*server, error) {
	s, err := d.serve(ctx, "stdio", "--workspace=", "--pool-warm=1")
	if err != nil {
		return nil, err
	}
	if err = s.listTools(ctx); err == nil {
		err = s.await(ctx)
	}
	for range settling {
		if err == nil {
			err = s.listTools(ctx)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// settling is the number of round trips between the log line about a box and the first
// call: the server logs it a moment before the pool can hand it out.
const settling = 20

// listTools lists the tools, as every client does.
func (s *server) listTools(ctx context.Context) error {
	_, err := s.session.ListTools(ctx, mcp.ListToolsRequest{})
	return err
}

// await waits for a box in the pool. Only the log reports it: a box in the pool belongs
// to no client.
func (s *server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	select {
	case <-s.journal.started:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no box in the pool within %v after the client connected: %w", readyTime, ctx.Err())
	}
}
