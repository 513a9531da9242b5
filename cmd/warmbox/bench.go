package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/warmbox/warmbox/bench"
)

// benchFlags are the flags of bench that are no settings.
type benchFlags struct {
	json, svg string
	quick     bool
	commands  []string
	verbose   bool
	long      int
	boxes     int
	against   string
	margin    float64
	renew     bool
}

func benchCommand() command {
	f := &benchFlags{}
	return command{
		name:  "bench",
		short: "measures what a command costs on this machine, beside a local shell and docker's own ways",
		long: "Measures on this machine, in one run and in turns: a local bash -c, warmbox over stdio and HTTP, the engine's exec,\n" +
			"docker exec and docker run. It tells latency by command, commands at once, starts, bulk output and memory. What it\n" +
			"starts is its own, and gone at the end. What this machine lacks is left out. It takes about a minute, and means\n" +
			"something only where little else runs meanwhile.\n\n" +
			"  warmbox bench --json bench.json --svg bench.svg\n" +
			"  warmbox bench --command 'go version' --image golang:1.26\n\n" +
			"The settings hold as they do for a server, but logs and workspaces are temporary, no model is asked, and where\n" +
			"no list of commands is set there is a short one, so that what it costs is counted.",
		flags: f.declare,
		run:   func(ctx context.Context, c *call) error { return measure(ctx, c, f) },
	}
}

func (f *benchFlags) declare(fs *flag.FlagSet) {
	fs.StringVar(&f.json, "json", "", "write the figures to this `FILE` too")
	fs.StringVar(&f.svg, "svg", "", "draw a chart of them in this `FILE`")
	fs.BoolVar(&f.quick, "quick", false, "take a quarter of the time, and tell less surely")
	fs.Func("command", "measure this `CMD` in place of the usual ones; several times for several", func(text string) error {
		f.commands = append(f.commands, text)
		return nil
	})
	fs.BoolVar(&f.verbose, "server-log", false, "show what the servers log")
	fs.IntVar(&f.long, "long", 0, "run `N` short commands in one box and nothing else: the last should cost what the first did")
	fs.IntVar(&f.boxes, "boxes", 0, "start `N` boxes and nothing else: what each costs, and a command beside so many")
	fs.StringVar(&f.against, "against", "", "compare the ratios to a local shell with those in this `FILE`, and exit with 1 where one is too high")
	fs.Float64Var(&f.margin, "margin", 0.5, "how much higher than in that file they may be: 0.5 is half as much again, for `M`")
	fs.BoolVar(&f.renew, "renew", false, "write that file anew instead")
}

func (f *benchFlags) check() error {
	only := 0
	for _, given := range []bool{f.long != 0, f.boxes != 0, f.against != ""} {
		if given {
			only++
		}
	}
	switch {
	case only > 1:
		return errors.New("--long, --boxes and --against each measure something else; give one of them")
	case only == 1 && (f.json != "" || f.svg != ""):
		return errors.New("--json and --svg are for the whole of bench, without --long, --boxes or --against")
	case f.long != 0 && f.long < 1000:
		return fmt.Errorf("--long: %d commands are too few to tell anything; give 1000 or more", f.long)
	case f.boxes < 0 || f.boxes > 1000:
		return fmt.Errorf("--boxes: %d is not between 1 and 1000", f.boxes)
	case f.margin < 0 || f.margin > 10:
		return fmt.Errorf("--margin: %v is not between 0 and 10", f.margin)
	case f.renew && f.against == "":
		return errors.New("--renew needs --against, the file that it writes")
	}
	return nil
}

func measure(ctx context.Context, c *call, f *benchFlags) error {
	if err := f.check(); err != nil {
		return &usageError{err.Error(), c.name}
	}
	b, err := c.newBench(ctx, f)
	if err != nil {
		return err
	}
	b.Begun = func(facts []bench.Fact) { bench.Facts(c.stdout, facts) }
	switch {
	case f.long > 0:
		err = b.Long(ctx, f.long, c.stdout)
	case f.boxes > 0:
		err = b.Boxes(ctx, f.boxes, c.stdout)
	case f.against != "":
		err = guard(ctx, c, b, f)
	default:
		err = measureAll(ctx, c, b, f)
	}
	if ctx.Err() != nil {
		return errors.New("stopped before the end")
	}
	return err
}

// measureAll looks first whether the files can be written: nobody wants to hear a
// minute later that they cannot.
func measureAll(ctx context.Context, c *call, b *bench.Bench, f *benchFlags) error {
	json, err := create(f.json)
	if err != nil {
		return err
	}
	defer json.Close()
	svg, err := create(f.svg)
	if err != nil {
		return err
	}
	defer svg.Close()
	r, err := b.Run(ctx)
	if err != nil {
		return err
	}
	errs := []error{r.Table(c.stdout)}
	if json != nil {
		errs = append(errs, r.JSON(json))
	}
	if svg != nil {
		errs = append(errs, r.SVG(svg))
	}
	return errors.Join(errs...)
}

// create returns nil for no name. A nil file can be closed.
func create(name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	return os.Create(name)
}

// guard compares ratios with stored ones, or stores them.
func guard(ctx context.Context, c *call, b *bench.Bench, f *benchFlags) error {
	if f.renew {
		return renew(ctx, b, f.against)
	}
	file, err := os.Open(f.against)
	if err != nil {
		return err
	}
	defer file.Close()
	stored, err := bench.ReadRatios(file)
	if err != nil {
		return fmt.Errorf("%s: %w", f.against, err)
	}
	verdicts, err := b.Guard(ctx, stored, f.margin)
	if err != nil {
		return err
	}
	return c.tellVerdicts(verdicts, f)
}

func (c *call) tellVerdicts(list []bench.Verdict, f *benchFlags) error {
	var slow []string
	for _, v := range list {
		word := "ok  "
		if !v.Within {
			word = "slow"
			slow = append(slow, fmt.Sprintf("%q costs %.2f × a local shell, and %.2f are stored", v.Command, v.Ratio, v.Stored))
		}
		if err := c.println(fmt.Sprintf("%s  %5.2f × local, stored %5.2f, at most %5.2f  %s", word, v.Ratio, v.Stored, v.Stored*(1+f.margin), v.Command)); err != nil {
			return err
		}
	}
	if slow == nil {
		return nil
	}
	return fmt.Errorf("slower than %s allows, the best of three: %s\nIf that is meant, on a machine with nothing else to do: warmbox bench --against %s --renew",
		f.against, strings.Join(slow, "; "), f.against)
}

// ratiosComment stands above the ratios of a file.
const ratiosComment = `What commands cost through warmbox over stdio, as multiples of a local bash -c:
medians of the ratios of each round, the best of three runs.
Compare:  warmbox bench --against FILE
Renew:    warmbox bench --against FILE --renew, where nothing else runs
`

func renew(ctx context.Context, b *bench.Bench, name string) error {
	ratios, err := b.Ratios(ctx)
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := ratios.Write(&text, ratiosComment); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text.String()), 0o644)
}
