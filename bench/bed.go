package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// bed is what runs during the measurements: servers with a warm box each, and a
// warm container of the same image without warmbox. All of them share one
// directory of this machine.
type bed struct {
	*Bench
	plan     plan
	progress *progress
	skipped  []string

	dir    string // temporary; contains work
	work   string
	stdio  *server
	box    string
	path   string  // how the server reaches the box
	http   *server // nil: not available
	hbox   string
	engine *engine // nil: not available
}

// open starts what every measurement needs. It fails if warmbox does not start.
func (b *Bench) open(ctx context.Context) (*bed, error) {
	d := &bed{Bench: b, plan: b.plan(), progress: newProgress(b.Progress, b.Terminal), skipped: slices.Clone(b.Skipped)}
	err := d.workspace(ctx)
	if err == nil {
		d.progress.step("starting warmbox")
		err = d.serveStdio(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, d.close(ctx))
	}
	if b.Begun != nil {
		b.Begun(d.facts())
	}
	return d, nil
}

// workspace creates the directory, which every user can write to.
func (d *bed) workspace(ctx context.Context) (err error) {
	if _, err := exec.LookPath("bash"); err != nil {
		return fmt.Errorf("no local shell to compare with: %w", err)
	}
	if d.dir, err = os.MkdirTemp("", "warmbox-bench-*"); err != nil {
		return err
	}
	if d.dir, err = filepath.EvalSymlinks(d.dir); err != nil {
		return err
	}
	d.work = filepath.Join(d.dir, "work")
	if err := errors.Join(os.Chmod(d.dir, 0o711), os.Mkdir(d.work, 0o700), os.Chmod(d.work, 0o777)); err != nil {
		return err
	}
	if err := makeRepo(ctx, d.work); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.skip("git status: %v", err)
	}
	return nil
}

func (d *bed) serveStdio(ctx context.Context) (err error) {
	if d.stdio, err = d.serve(ctx, "stdio", d.inWork()...); err != nil {
		return err
	}
	if d.box, err = start(ctx, d.stdio.session); err != nil {
		return err
	}
	d.path = <-d.stdio.journal.started // logged before the reply
	return nil
}

// others starts the optional parts: HTTP and the engine. It runs a first command
// before, so that the box is idle when they have started.
func (d *bed) others(ctx context.Context, _ *Report) error {
	run(ctx, d.stdio.session, d.box, "true") // a list of commands may deny it
	var err error
	if d.http, err = d.serve(ctx, "http", d.inWork()...); err == nil {
		d.hbox, err = start(ctx, d.http.session)
	}
	if err != nil {
		d.skip("HTTP: %v", err)
		err = d.http.close()
		d.http = nil
	}
	if d.Engine != "" && err == nil {
		d.progress.step("starting a container without warmbox")
		if d.engine, err = newEngine(ctx, d.Engine, d.Image, d.work); err != nil {
			d.skip("the engine without warmbox: %v", err)
			err = nil
		}
	}
	return errors.Join(err, ctx.Err())
}

// inWork returns the flags of a server whose boxes share the directory.
func (d *bed) inWork() []string {
	return []string{"--workspace=" + d.work, "--workspace-roots=", "--log-max-run=2g", "--log-max-total=8g"}
}

func (d *bed) skip(format string, args ...any) {
	d.skipped = append(d.skipped, fmt.Sprintf(format, args...))
}

// facts returns those of the caller, and how the server reaches boxes.
func (d *bed) facts() []Fact {
	return append(slices.Clone(d.Facts), Fact{"path", "commands reach a box by its " + d.path})
}

// closeTime bounds the clean-up on the engine.
const closeTime = 15 * time.Second

// close removes everything, also after an incomplete open or an interrupt.
func (d *bed) close(ctx context.Context) error {
	d.progress.step("cleaning up")
	defer d.progress.end()
	errs := []error{d.stdio.close(), d.http.close()}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return errors.Join(append(errs, d.engine.close(closing, ctx.Err() != nil), os.RemoveAll(d.dir))...)
}
