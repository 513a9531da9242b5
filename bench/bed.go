package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// bed is what stands while things are measured: a server with a warm box, and a
// warm container of the same image without warmbox.
type bed struct {
	options
	dir       string // temporary, of the server
	server    *server
	engine    *engine
	box       string
	container string
}

func newBed(ctx context.Context, o options) (*bed, error) {
	b := &bed{options: o}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bed) open(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "warmbox-bench-*"); err != nil {
		return err
	}
	if b.engine, err = newEngine(ctx, b.image); err != nil {
		return err
	}
	if b.container, err = b.engine.start(ctx); err != nil {
		return err
	}
	if b.server, err = newServer(ctx, b.options, b.dir, b.settings(0)); err != nil {
		return err
	}
	b.box, err = b.server.start(ctx)
	return err
}

// settings are those of a server on which so many boxes stand ready. One that is
// started while something else is measured would disturb it, so most want none.
func (o *options) settings(warm int) string {
	most := max(o.boxes, 256)
	return fmt.Sprintf("max_boxes = %d\n[images]\ndefault = %q\n[log]\nmax_run = \"256m\"\n[exec]\nmax_runs = %d\n[pool]\nwarm = %d\n",
		most, o.image, most, warm)
}

// close takes away what open made, also a part of it and also after an
// interrupt.
func (b *bed) close() error {
	var errs []error
	if b.server != nil {
		errs = append(errs, b.server.close())
	}
	if b.container != "" {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		errs = append(errs, b.engine.remove(ctx, b.container))
	}
	if b.engine != nil {
		errs = append(errs, b.engine.client.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// ways returns the ways to run a command: the local shell first, warmbox
// second, docker exec last but one.
func (b *bed) ways(cmd string) []way {
	return []way{
		{name: "local", do: program("bash", "-c", cmd)},
		{name: "warmbox, through MCP", do: func(ctx context.Context) error {
			_, err := b.server.exec(ctx, b.box, cmd)
			return err
		}},
		{name: "engine's API: exec", do: func(ctx context.Context) error { return b.engine.exec(ctx, b.container, cmd) }},
		{name: "docker exec", do: b.docker("exec", b.container, "bash", "-c", cmd)},
		{name: "docker run --rm", do: b.docker("run", "--rm", "--network=none", b.image, "bash", "-c", cmd)},
	}
}

// startWays returns the ways to get a running container, the bare one first.
// It has no network either: to make one takes the engine longer than the rest.
func (b *bed) startWays() []way {
	var container, box string
	return []way{
		{
			name: "engine's API: create, start",
			do: func(ctx context.Context) (err error) {
				container, err = b.engine.start(ctx)
				return err
			},
			undo: func(ctx context.Context) error { return b.engine.remove(ctx, container) },
		},
		{
			name: "warmbox, through MCP",
			do: func(ctx context.Context) (err error) {
				box, err = b.server.start(ctx)
				return err
			},
			undo: func(ctx context.Context) error { return b.server.stop(ctx, box) },
		},
	}
}

// stopWays returns the ways to end a container with all that is in it, the bare
// one first.
func (b *bed) stopWays() []way {
	starts := b.startWays()
	for i, w := range starts {
		starts[i] = way{name: []string{"engine's API: remove", w.name}[i], prepare: w.do, do: w.undo}
	}
	return starts
}

func (b *bed) docker(args ...string) func(context.Context) error {
	return program("docker", append([]string{"-H", b.engine.client.DaemonHost()}, args...)...)
}

// program runs a program and, as every other way does, takes its output.
func program(name string, args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %.500s", err, out)
		}
		return nil
	}
}
