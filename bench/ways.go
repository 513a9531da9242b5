package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// The ways to run a command, by their names in a report.
const (
	wayLocal = "local bash -c"
	wayStdio = "warmbox, stdio"
	wayHTTP  = "warmbox, HTTP"
	wayAPI   = "engine API, exec"
	wayExec  = "docker exec"
	wayRun   = "docker run --rm"
)

// light returns the ways that do not load the engine: the local one first.
func (d *bed) light(cmd string) []way {
	ways := []way{
		{name: wayLocal, do: d.local(cmd, nil)},
		{name: wayStdio, do: func(ctx context.Context) error {
			_, err := run(ctx, d.stdio.session, d.box, cmd)
			return err
		}},
	}
	if d.http != nil {
		ways = append(ways, way{name: wayHTTP, do: func(ctx context.Context) error {
			_, err := run(ctx, d.http.session, d.hbox, cmd)
			return err
		}})
	}
	return ways
}

// heavy returns the local way and the engine's own. They are measured apart from the
// light ones, which the work that they leave in the engine would slow down.
func (d *bed) heavy(cmd string, run bool) []way {
	ways := []way{{name: wayLocal, do: d.local(cmd, nil)}}
	if d.engine == nil {
		return ways
	}
	ways = append(ways, way{name: wayAPI, do: func(ctx context.Context) error { return d.engine.exec(ctx, cmd, io.Discard) }})
	if !hasDocker() {
		return ways
	}
	ways = append(ways, way{name: wayExec, do: program("docker", d.engine.execArgs(cmd)...)})
	if run {
		ways = append(ways, way{name: wayRun, do: program("docker", d.engine.runArgs(cmd)...)})
	}
	return ways
}

func hasDocker() bool {
	_, err := exec.LookPath("docker")
	return err == nil
}

// latencies measures every command in every way, but docker run only for the first
// command: its cost hardly depends on the command.
func (d *bed) latencies(ctx context.Context, r *Report) error {
	if d.engine != nil && !hasDocker() {
		d.skip("docker exec and docker run: docker is not in PATH")
	}
	for i, cmd := range d.commands() {
		g, err := d.latency(ctx, cmd, i == 0)
		if err != nil {
			return err
		}
		if len(g.Rows) > 0 {
			r.Commands = append(r.Commands, g)
		}
	}
	return nil
}

func (d *bed) latency(ctx context.Context, cmd string, run bool) (Group, error) {
	d.progress.step("latency of " + cmd)
	light, err := d.usable(ctx, cmd, d.light(cmd))
	if err != nil || len(light) < 2 {
		return Group{}, err
	}
	g, err := d.compareEach(ctx, cmd, light, d.plan.light)
	if err != nil || d.Quick && !run {
		return g, err
	}
	heavy, err := d.usable(ctx, cmd, d.heavy(cmd, run))
	if err != nil || len(heavy) < 2 {
		return g, err
	}
	more, err := d.compare(ctx, cmd, heavy, d.plan.heavy)
	if err == nil {
		g.Rows = append(g.Rows, more.Rows[1:]...)
	}
	return g, err
}

// compareEach compares every other way with the first, one at a time: in normal use
// there are not two servers that slow each other down.
func (d *bed) compareEach(ctx context.Context, name string, ways []way, p pace) (g Group, err error) {
	for _, w := range ways[1:] {
		pair, err := d.compare(ctx, name, []way{ways[0], w}, p)
		if err != nil {
			return Group{}, err
		}
		if g.Rows == nil {
			g = pair
		} else {
			g.Rows = append(g.Rows, pair.Rows[1:]...)
		}
	}
	return g, nil
}

func (d *bed) compare(ctx context.Context, name string, ways []way, p pace) (Group, error) {
	all, err := interleave(ctx, ways, p)
	if err != nil {
		return Group{}, err
	}
	return groupOf(name, ways, did(all)), nil
}

// usable tries each way once, and returns those that work: an image may lack a command,
// or the configuration may deny it. If the first fails there is nothing to compare, and
// it returns none.
func (d *bed) usable(ctx context.Context, what string, ways []way) ([]way, error) {
	var kept []way
	for i, w := range ways {
		_, _, err := timed(ctx, w)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			kept = append(kept, w)
		default:
			d.skip("%s, %s: %v", what, w.name, err)
			if i == 0 {
				return nil, nil
			}
		}
	}
	return kept, nil
}

// local runs a command without a sandbox: a shell in the directory of the boxes, whose
// output is read, or written to a file.
func (d *bed) local(cmd string, out *os.File) func(context.Context) error {
	return func(ctx context.Context) error {
		c := exec.CommandContext(ctx, "bash", "-c", cmd)
		c.Dir = d.work
		return finish(c, out)
	}
}

// program runs a program and reads its output.
func program(name string, args ...string) func(context.Context) error {
	return func(ctx context.Context) error { return finish(exec.CommandContext(ctx, name, args...), nil) }
}

// interruptTime bounds the end of a program that was interrupted.
const interruptTime = 5 * time.Second

func finish(c *exec.Cmd, out *os.File) error {
	c.Cancel, c.WaitDelay = func() error { return c.Process.Signal(os.Interrupt) }, interruptTime
	if out != nil {
		c.Stdout = out
		return c.Run()
	}
	text, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %.500s", err, text)
	}
	return nil
}
