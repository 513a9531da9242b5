package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

// starts compares a new box with the least that an engine needs to start any
// container of the same image, and its end with a forced removal. Neither has a
// network: to make one takes an engine longer than the rest.
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
	r.Starts = append(r.Starts, groupOf("start, none stands ready", ways, did(all)), stops)
	return nil
}

// visits tells what somebody waits for who connects to a server on which a box
// stands ready. Each round has a new server, so that every start is the first.
func (d *bed) visits(ctx context.Context, r *Report) error {
	if d.engine == nil || !hasDocker() {
		return nil
	}
	d.progress.step("start where a box stands ready")
	var s *server
	come := func(ctx context.Context) (err error) {
		s, err = d.visit(ctx)
		return err
	}
	leave := func(context.Context) error { return s.close() }
	g, err := d.compare(ctx, "start, a box stands ready", []way{
		{name: wayRun, do: program("docker", d.engine.runArgs("true")...)},
		{name: "warmbox, start", prepare: come, undo: leave, do: func(ctx context.Context) error {
			_, err := start(ctx, s.session)
			return err
		}},
		{name: "warmbox, the first exec: true", prepare: come, undo: leave, do: func(ctx context.Context) error {
			_, err := run(ctx, s.session, "", "true")
			return err
		}},
	}, d.plan.visits)
	if err == nil {
		r.Starts = append(r.Starts, g)
	}
	return err
}

// visit returns a server when a box of it stands ready.
func (d *bed) visit(ctx context.Context) (*server, error) {
	s, err := d.serve(ctx, "stdio", "--workspace=", "--pool-warm=1")
	if err != nil {
		return nil, err
	}
	if err = s.greet(ctx); err == nil {
		err = s.await(ctx)
	}
	for range settling {
		if err == nil {
			err = s.greet(ctx)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// settling is how many round trips a box is given from the moment that it is said
// to stand until it can be had: the server says so a moment too early.
const settling = 20

// greet asks for the tools, as every client does.
func (s *server) greet(ctx context.Context) error {
	_, err := s.session.ListTools(ctx, mcp.ListToolsRequest{})
	return err
}

// await returns when a box stands that nobody asked for. A client cannot be
// told: boxes that stand ready are nobody's.
func (s *server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	select {
	case <-s.journal.started:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no box stands ready within %v of a client's coming: %w", readyTime, ctx.Err())
	}
}
