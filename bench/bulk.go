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

// trial is how many bytes are printed to find out which ways work.
const trial = 1_000_000

// bulk runs one command with very much output, in every way, until the last byte is in
// a file. For warmbox that file is the raw log, and the time includes the summary.
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

// bulkWays returns the ways to print size bytes: the local one first, docker exec last.
// The one of warmbox stores the length of the reply.
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

// toFile gives a way an output file, and checks the size of the file afterwards.
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

// printed runs a command, and returns the length of the reply.
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
		err = fmt.Errorf("%s has %d bytes, but the command printed %d", file, info.Size(), size)
	}
	return err
}

// flows converts times to rates, and compares each with the last way, the most common
// one without warmbox.
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
