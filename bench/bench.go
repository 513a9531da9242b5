// Package bench measures what a command costs through warmbox, compared with other
// ways to run it on the same machine: a local bash, the engine's exec API, docker
// exec and docker run. It measures latency, throughput of output and of concurrent
// commands, start times and memory, and writes a table, JSON or a chart.
//
// It starts the program that it measures, over stdio and over HTTP, and talks to it
// through an MCP client library, as clients do. The ways that are compared
// alternate, in random order, so other load on the machine affects all of them:
// ratios are more reliable than times.
//
// A report names what the machine lacks. Only Guard judges the figures. The package
// does not read warmbox's configuration: its caller chooses what is measured, and on
// which engine. Everything that it starts has ended when a call returns, also if the
// context is cancelled.
package bench

import (
	"context"
	"errors"
	"io"
	"time"
)

// A Bench is used like http.Server: set its fields, then call a method.
type Bench struct {
	Program  string   // path of a program with the commands stdio and http of warmbox
	Args     []string // its settings, as flags
	Env      []string // added to the environment of servers
	Engine   string   // its address, e.g. unix:///var/run/docker.sock; "": boxes use no engine
	Image    string   // of all containers
	Commands []string // measured for latency; nil: usual ones
	Quick    bool     // a quarter of the time, with less certain figures
	Facts    []Fact   // about the configuration, for the report
	Skipped  []string // what the caller knows to be missing, as sentences

	Begun    func([]Fact) // called with all facts before the first measurement; may be nil
	Progress io.Writer    // receives each step; may be nil
	Terminal bool         // Progress is a terminal, so steps overwrite each other
	Log      io.Writer    // receives the logs of servers; may be nil
}

// usual are commands like those of models: nothing at all, a builtin, a program, a
// program that reads many files, and a pipeline.
var usual = []string{"true", "echo hello", "ls /", "git status", "cat /etc/passwd | sort | wc -l"}

// commands returns those whose latency is measured.
func (b *Bench) commands() []string {
	if len(b.Commands) == 0 {
		return usual
	}
	return b.Commands
}

// A plan says how much is measured.
type plan struct {
	light  pace // local and warmbox: a few milliseconds a turn
	heavy  pace // through the engine: up to a second
	starts pace
	first  pace // first calls, each with a new server
	bulk   pace
	bytes  int // size of one bulk output
	loads  pace
	window time.Duration // length of one measurement of concurrent commands
}

// plan keeps a report within a minute on a small machine, and a quick one within a
// quarter of that.
func (b *Bench) plan() plan {
	if b.Quick {
		return plan{
			light: pace{3, 60, 600 * time.Millisecond}, heavy: pace{0, 5, 2 * time.Second},
			starts: pace{0, 3, 2 * time.Second}, first: pace{0, 1, time.Second},
			bulk: pace{0, 1, time.Second}, bytes: 50_000_000,
			loads: pace{0, 2, time.Second}, window: 100 * time.Millisecond,
		}
	}
	return plan{
		light: pace{5, 300, 3 * time.Second}, heavy: pace{0, 20, 5 * time.Second},
		starts: pace{1, 8, 6 * time.Second}, first: pace{0, 5, 5 * time.Second},
		bulk: pace{0, 3, 6 * time.Second}, bytes: 200_000_000,
		loads: pace{0, 4, 3 * time.Second}, window: 200 * time.Millisecond,
	}
}

// Run makes the complete report.
func (b *Bench) Run(ctx context.Context) (r *Report, err error) {
	d, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	r = &Report{When: time.Now().UTC().Truncate(time.Second), Quick: b.Quick, Facts: d.facts()}
	for _, part := range []struct {
		name    string
		measure func(context.Context, *Report) error
	}{
		{"other ways", d.others}, {"memory", d.memoryIdle}, {"latency", d.latencies}, {"at once", d.concurrency},
		{"start and stop", d.starts}, {"start with a box in the pool", d.firstCalls}, {"bulk", d.bulk}, {"memory", d.memoryAfter},
	} {
		err := part.measure(ctx, r)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			d.skip("%s: %v", part.name, err)
		}
	}
	r.Skipped = d.skipped
	return r, nil
}
