package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// trial is how much is printed to see which ways there are.
const trial = 1_000_000

// bulk runs one command that prints very much, in every way to the last byte in a
// file. Of warmbox that file is the log, and the time has the summary in it.
func (d *bed) bulk(ctx context.Context, r *Report) error {
	size := d.plan.bytes
	d.progress.step(fmt.Sprintf("%d MB of output", size/1_000_000))
	reply := 0
	kept, err := d.usable(ctx, "bulk", d.bulkWays(trial, &reply))
	if err != nil || len(kept) < 2 {
		return err
	}
	ways := slices.DeleteFunc(d.bulkWays(size, &reply), func(w way) bool {
		return !slices.ContainsFunc(kept, func(k way) bool { return k.name == w.name })
	})
	before := d.resetPeak()
	all, err := interleave(ctx, ways, d.plan.bulk)
	if err != nil {
		return err
	}
	r.Bulk = flows(ways, all, size)
	for i := range r.Bulk {
		if f := &r.Bulk[i]; f.Way == wayStdio {
			f.Reply = reply
			if before > 0 {
				f.Growth = max(0, memory(d.stdio.pid(), "VmHWM")-before)
			}
		}
	}
	return nil
}

// bulkWays are those to have so many bytes printed: the local one first, docker's
// last. Of warmbox's the length of the reply is told.
func (d *bed) bulkWays(size int, reply *int) []way {
	cmd := fmt.Sprintf("yes 'a line of ordinary text, one of very many' | head -c %d", size)
	ways := []way{
		{name: wayLocal, do: d.toFile(size, func(ctx context.Context, f *os.File) error { return d.local(cmd, f)(ctx) })},
		{name: wayStdio, do: func(ctx context.Context) (err error) {
			*reply, err = d.printed(ctx, cmd, size)
			return err
		}},
	}
	if d.engine == nil {
		return ways
	}
	ways = append(ways, way{name: wayAPI, do: d.toFile(size, func(ctx context.Context, f *os.File) error { return d.engine.exec(ctx, cmd, f) })})
	if !hasDocker() {
		return ways
	}
	return append(ways, way{name: wayExec, do: d.toFile(size, func(ctx context.Context, f *os.File) error {
		return finish(exec.CommandContext(ctx, "docker", d.engine.execArgs(cmd)...), f)
	})})
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
