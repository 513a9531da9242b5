package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// bulk runs one command that prints very much, in every way to the last byte in a
// file. Of warmbox that file is the log, and the time has the summary in it.
func (d *bed) bulk(ctx context.Context, r *Report) error {
	size := d.plan.bytes
	d.progress.step(fmt.Sprintf("%d MB of output", size/1_000_000))
	cmd := fmt.Sprintf("yes 'a line of ordinary text, one of very many' | head -c %d", size)
	before, reply := d.resetPeak(), 0
	ways, err := d.usable(ctx, "bulk", append([]way{
		{name: wayLocal, do: d.toFile(size, func(ctx context.Context, f *os.File) error { return d.local(cmd, f)(ctx) })},
		{name: wayStdio, do: func(ctx context.Context) (err error) {
			reply, err = d.printed(ctx, cmd, size)
			return err
		}},
	}, d.heavyBulk(cmd, size)...))
	if err != nil || len(ways) < 2 {
		return err
	}
	all, err := interleave(ctx, ways, d.plan.bulk)
	if err != nil {
		return err
	}
	r.Bulk = flows(ways, all, size)
	if before > 0 {
		r.Bulk[1].Growth = max(0, memory(d.stdio.pid(), "VmHWM")-before)
	}
	r.Bulk[1].Reply = reply
	return nil
}

func (d *bed) heavyBulk(cmd string, size int) (ways []way) {
	if d.engine == nil {
		return nil
	}
	ways = append(ways, way{name: wayAPI, do: d.toFile(size, func(ctx context.Context, f *os.File) error { return d.engine.exec(ctx, cmd, f) })})
	if hasDocker() {
		ways = append(ways, way{name: wayExec, do: d.toFile(size, func(ctx context.Context, f *os.File) error {
			return finish(exec.CommandContext(ctx, "docker", d.engine.execArgs(cmd)...), f)
		})})
	}
	return ways
}

// toFile gives a way a file to write to and sees that all has come.
func (d *bed) toFile(size int, do func(context.Context, *os.File) error) func(context.Context) error {
	return func(ctx context.Context) error {
		f, err := os.Create(filepath.Join(d.dir, "output"))
		if err != nil {
			return err
		}
		defer f.Close()
		if err := do(ctx, f); err != nil {
			return err
		}
		return holds(f.Name(), size)
	}
}

// printed returns how long the reply is.
func (d *bed) printed(ctx context.Context, cmd string, size int) (int, error) {
	r, err := run(ctx, d.stdio.session, d.box, cmd)
	if err != nil {
		return 0, err
	}
	a, err := read(r)
	if err != nil {
		return 0, err
	}
	return len(a.text), holds(a.LogPath, size)
}

func holds(file string, size int) error {
	info, err := os.Stat(file)
	if err == nil && info.Size() != int64(size) {
		err = fmt.Errorf("%s has %d bytes, and %d were printed", file, info.Size(), size)
	}
	return err
}

// flows makes rates of times, each compared with the last way, which is the one
// that most use who have no warmbox.
func flows(ways []way, all []times, size int) (list []Flow) {
	last := len(ways) - 1
	for i, w := range ways {
		p50 := percentile(all[i].did, 50)
		list = append(list, Flow{
			Way: w.name, Bytes: size, P50: millis(p50), Rate: float64(size) / 1e6 / max(time.Nanosecond, p50).Seconds(),
			Ratio: ratio(all[last].did, all[i].did), Base: ways[last].name,
		})
	}
	return list
}
