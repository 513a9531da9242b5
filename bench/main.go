// Bench measures, in one run on one machine, what a command costs through
// warmbox beside the other ways to run it: a local shell, the engine's own
// exec over its API, docker exec and docker run. It goes through the built
// server as any client does, over stdio, and prints tables of figures:
//
//	go run ./bench
//
// What is compared is measured in turns, not one after the other, so that
// whatever else the machine does meets all of it; so the ratios mean more than
// the milliseconds. It needs an engine that has the image, and the server built
// as bin/warmbox. Whether very many commands leave anything behind it tells with
//
//	go run ./bench -long 10000
//
// and what very many boxes cost, with
//
//	go run ./bench -boxes 200
//
// Without an engine it can tell how much a model is given to
// read of real outputs:
//
//	go run ./bench -tokens
//
// Bench passes no judgement and exits with 1 only where it could not measure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"time"
)

const defaultImage = "warmbox/sandbox:slim"

type options struct {
	program string
	image   string
	rounds  int
	starts  int
	long    int
	boxes   int
	tokens  bool
	cases   string
	stderr  io.Writer // of the server; nil: dropped
}

func main() {
	var o options
	flag.StringVar(&o.program, "warmbox", "bin/warmbox", "the server to measure")
	flag.StringVar(&o.image, "image", defaultImage, "the image of all containers")
	flag.IntVar(&o.rounds, "n", 100, "rounds of commands")
	flag.IntVar(&o.starts, "starts", 20, "rounds of starts")
	flag.IntVar(&o.long, "long", 0, "run so many short commands in one box, such as 10000, and nothing else")
	flag.IntVar(&o.boxes, "boxes", 0, "start so many boxes, such as 200, and nothing else")
	flag.BoolVar(&o.tokens, "tokens", false, "count what a model reads of real outputs, and nothing else")
	flag.StringVar(&o.cases, "cases", "sandbox/summary/testdata", "the folder with those outputs")
	verbose := flag.Bool("v", false, "show what the server logs")
	flag.Parse()
	if *verbose {
		o.stderr = os.Stderr
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) (err error) {
	if o.tokens {
		return reportTokens(ctx, o, out)
	}
	b, err := newBed(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	fmt.Fprintf(out, "%s/%s, %d CPUs, engine %s, image %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), b.engine.version, o.image)
	reports := []func(context.Context, *bed, io.Writer) error{reportIdle, reportWays, reportCommands, reportStarts, reportWarm, reportStops, reportBulk}
	switch {
	case o.long > 0:
		reports = []func(context.Context, *bed, io.Writer) error{reportLong}
	case o.boxes > 0:
		reports = []func(context.Context, *bed, io.Writer) error{reportMany}
	}
	for _, report := range reports {
		fmt.Fprintln(out)
		if err := report(ctx, b, out); err != nil {
			return err
		}
	}
	return nil
}

// reportIdle tells the memory of a server and an agent that did one command.
func reportIdle(ctx context.Context, b *bed, out io.Writer) error {
	if _, err := b.server.exec(ctx, b.box, "true"); err != nil {
		return err
	}
	agent, err := b.engine.initPid(ctx, b.box)
	if err != nil {
		return err
	}
	row(out, "resident memory, idle", "MB")
	row(out, "server", megabytes(memory(b.server.pid, "VmRSS")))
	row(out, "agent", megabytes(memory(agent, "VmRSS")))
	return nil
}

func reportWays(ctx context.Context, b *bed, out io.Writer) error {
	ways := b.ways("true")
	times, err := interleave(ctx, ways, b.rounds)
	if err != nil {
		return err
	}
	local, dockerExec := p50(times[0]), p50(times[len(times)-2])
	row(out, fmt.Sprintf("bash -c true, %d rounds", b.rounds), "p50 ms", "p95 ms", "× local", "docker exec ÷")
	for i, w := range ways {
		p := p50(times[i])
		row(out, w.name, ms(p), ms(percentile(times[i], 95)), ratio(p, local), ratio(dockerExec, p))
	}
	return nil
}

// reportCommands compares warmbox with the local shell only, without the work
// that an engine leaves behind for the next one to meet.
func reportCommands(ctx context.Context, b *bed, out io.Writer) error {
	row(out, fmt.Sprintf("p50 ms, %d rounds", b.rounds), "local", "warmbox", "× local")
	for _, cmd := range []string{"true", "echo hello", "ls /", "cat /etc/passwd | sort | wc -l"} {
		times, err := interleave(ctx, b.ways(cmd)[:2], b.rounds)
		if err != nil {
			return err
		}
		local, warm := p50(times[0]), p50(times[1])
		row(out, cmd, ms(local), ms(warm), ratio(warm, local))
	}
	return nil
}

func reportStarts(ctx context.Context, b *bed, out io.Writer) error {
	return b.reportTurns(ctx, out, "cold start", "× bare", b.startWays())
}

func reportStops(ctx context.Context, b *bed, out io.Writer) error {
	return b.reportTurns(ctx, out, "stop", "× bare", b.stopWays())
}

// reportTurns compares ways with the first of them.
func (b *bed) reportTurns(ctx context.Context, out io.Writer, name, unit string, ways []way) error {
	times, err := interleave(ctx, ways, b.starts)
	if err != nil {
		return err
	}
	row(out, fmt.Sprintf("%s, %d rounds", name, b.starts), "p50 ms", "p95 ms", unit)
	for i, w := range ways {
		p := p50(times[i])
		row(out, w.name, ms(p), ms(percentile(times[i], 95)), ratio(p, p50(times[0])))
	}
	return nil
}

const bulkBytes = 200_000_000

// reportBulk runs one command that prints 200 MB.
func reportBulk(ctx context.Context, b *bed, out io.Writer) error {
	before := memory(b.server.pid, "VmRSS")
	begin := time.Now()
	r, err := b.server.exec(ctx, b.box, fmt.Sprintf("yes 'a line of ordinary text, one of very many' | head -c %d", bulkBytes))
	took := time.Since(begin)
	if err != nil {
		return err
	}
	info, err := os.Stat(r.LogPath)
	if err != nil {
		return err
	}
	growth := max(0, memory(b.server.pid, "VmHWM")-before)
	row(out, "one command that prints 200 MB", "")
	row(out, "time, s", fmt.Sprintf("%.2f", took.Seconds()))
	row(out, "reply, bytes", strconv.Itoa(r.replyBytes))
	row(out, "log, bytes", strconv.FormatInt(info.Size(), 10))
	row(out, "growth of the server's peak, MB", megabytes(growth))
	return nil
}

func row(out io.Writer, name string, cells ...string) {
	fmt.Fprintf(out, "%-34s", name)
	for _, cell := range cells {
		fmt.Fprintf(out, "%14s", cell)
	}
	fmt.Fprintln(out)
}
