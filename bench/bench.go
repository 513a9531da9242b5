// Package bench measures what a command costs through warmbox beside the other
// ways to run it on the same machine: a local bash, the engine's own exec over
// its API, docker exec and docker run. It tells latency, what comes through in
// bulk and at once, how long a start takes, and memory; as a table, as JSON and
// as a chart.
//
// It starts the program that it measures, over stdio and over HTTP, as clients do,
// and speaks MCP with it through a client library. What is compared is measured in
// turns, in an order that changes, so whatever else the machine does meets all of it:
// ratios are what to look at.
//
// What the machine lacks is left out of a report, with a sentence. The package
// passes no judgement but in Guard. It does not read warmbox's configuration: the
// caller says what is measured, and on which engine. Whatever it starts is gone
// when a call returns, also when its context ends before.
package bench

import (
	"context"
	"errors"
	"io"
	"time"
)

// A Bench is used like http.Server: set its fields, then call.
type Bench struct {
	Program  string   // of warmbox
	Args     []string // its settings, as flags
	Env      []string // added to the environment of servers
	Engine   string   // where it listens, e.g. unix:///var/run/docker.sock; "": boxes are on none
	Image    string   // of all containers
	Commands []string // whose latency is measured; nil: usual ones
	Quick    bool     // takes a quarter of the time, and tells less surely
	Facts    []Fact   // of the configuration, for the report
	Skipped  []string // what the caller knows to be missing, in sentences

	Begun    func([]Fact) // is told all facts before anything is measured; nil: nobody
	Progress io.Writer    // is told what goes on; nil: nobody
	Terminal bool         // Progress is one, where a line can be written over
	Log      io.Writer    // has what servers log; nil: nobody
}

// usual are commands as models run them: nothing at all, a builtin, a program,
// a program that looks at many files, and three of them.
var usual = []string{"true", "echo hello", "ls /", "git status", "cat /etc/passwd | sort | wc -l"}

// commands are those whose latency is measured.
func (b *Bench) commands() []string {
	if len(b.Commands) == 0 {
		return usual
	}
	return b.Commands
}

// A plan is how much is measured.
type plan struct {
	light  pace // local and warmbox: a few milliseconds a turn
	heavy  pace // through the engine: up to a second
	starts pace
	visits pace // each with a server of its own
	bulk   pace
	bytes  int // of one output in bulk
	crowds pace
	window time.Duration // for which a crowd is watched
}

// plan keeps a report within a minute on a small machine, a quick one within a
// quarter of that.
func (b *Bench) plan() plan {
	if b.Quick {
		return plan{
			light: pace{3, 60, 600 * time.Millisecond}, heavy: pace{0, 5, 2 * time.Second},
			starts: pace{0, 3, 2 * time.Second}, visits: pace{0, 1, time.Second},
			bulk: pace{0, 1, time.Second}, bytes: 50_000_000,
			crowds: pace{0, 2, time.Second}, window: 100 * time.Millisecond,
		}
	}
	return plan{
		light: pace{5, 300, 3 * time.Second}, heavy: pace{0, 20, 5 * time.Second},
		starts: pace{1, 8, 6 * time.Second}, visits: pace{0, 5, 5 * time.Second},
		bulk: pace{0, 3, 6 * time.Second}, bytes: 200_000_000,
		crowds: pace{0, 4, 3 * time.Second}, window: 200 * time.Millisecond,
	}
}

// Run measures everything.
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
		{"other ways", d.others}, {"memory", d.memoryIdle}, {"latency", d.latencies}, {"at once", d.crowds},
		{"start and stop", d.starts}, {"start where a box stands ready", d.visits}, {"bulk", d.bulk}, {"memory", d.memoryAfter},
	} {
		err := part.measure(ctx, r)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			d.omit("%s: %v", part.name, err)
		}
	}
	r.Skipped = d.skipped
	return r, nil
}
