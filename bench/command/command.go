// Package command is the command line of warmbox-bench: its flags, its exit
// code, and the settings of the servers that package bench measures.
//
// It is apart from warmbox because an MCP client and a client of the engine are
// weight that users do not need. It measures the program that it is part of,
// which can serve as warmbox does, so no other build of warmbox can be measured
// by mistake.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/warmbox/warmbox/bench"
	"github.com/warmbox/warmbox/cmd/warmbox/cli"
)

// Program is warmbox-bench: the command bench, and the servers that it starts.
func Program() cli.Program {
	return cli.Program{
		Name: "warmbox-bench", Default: "bench",
		Overview: "warmbox-bench measures what a command costs through warmbox on this machine.\n\n",
		Commands: append([]cli.Command{benchCommand()}, cli.Servers()...),
	}
}

// flags are those of bench that are not settings.
type flags struct {
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

func benchCommand() cli.Command {
	f := &flags{}
	return cli.Command{
		Name:  "bench",
		Short: "measures what a command costs on this machine, compared with a local shell and docker",
		Long: "Measures on this machine, in one run and in alternation: a local bash -c, warmbox over stdio and HTTP, the\n" +
			"engine's exec, docker exec and docker run. It reports latency by command, concurrent commands, starts, bulk\n" +
			"output and memory. It removes everything that it starts. What this machine lacks is skipped. It takes about a\n" +
			"minute, and the figures are meaningful only if little else runs meanwhile.\n\n" +
			"  warmbox-bench --json bench.json --svg bench.svg\n" +
			"  warmbox-bench --command 'go version' --image golang:1.26\n\n" +
			"The settings apply as they do for a server, but logs and workspaces are temporary, no model is asked, and if no\n" +
			"list of commands is set, a short one is used, so that its cost is included.",
		Flags: f.declare,
		Run:   func(ctx context.Context, c *cli.Call) error { return measure(ctx, c, f) },
	}
}

func (f *flags) declare(fs *flag.FlagSet) {
	fs.StringVar(&f.json, "json", "", "also write the figures to this `FILE`")
	fs.StringVar(&f.svg, "svg", "", "draw a chart of them in this `FILE`")
	fs.BoolVar(&f.quick, "quick", false, "measure for a quarter of the time, with less certain figures")
	fs.Func("command", "measure this `CMD` instead of the usual ones; repeat it for several", func(text string) error {
		f.commands = append(f.commands, text)
		return nil
	})
	fs.BoolVar(&f.verbose, "server-log", false, "print what the servers log")
	fs.IntVar(&f.long, "long", 0, "only run `N` short commands in one box: the last should cost what the first did")
	fs.IntVar(&f.boxes, "boxes", 0, "only start `N` boxes: what each costs, and what a command costs beside them")
	fs.StringVar(&f.against, "against", "", "compare the ratios to a local shell with those in this `FILE`, and exit with 1 if one is too high")
	fs.Float64Var(&f.margin, "margin", 0.5, "how much higher than in that file they may be: 0.5 is half as much again, for `M`")
	fs.BoolVar(&f.renew, "renew", false, "write that file instead")
}

func (f *flags) check() error {
	only := 0
	for _, given := range []bool{f.long != 0, f.boxes != 0, f.against != ""} {
		if given {
			only++
		}
	}
	switch {
	case only > 1:
		return errors.New("--long, --boxes and --against each measure something else; use one of them")
	case only == 1 && (f.json != "" || f.svg != ""):
		return errors.New("--json and --svg need the complete measurement, without --long, --boxes or --against")
	case f.long != 0 && f.long < 1000:
		return fmt.Errorf("--long: %d commands are too few to compare; use 1000 or more", f.long)
	case f.boxes < 0 || f.boxes > 1000:
		return fmt.Errorf("--boxes: %d is not between 1 and 1000", f.boxes)
	case f.margin < 0 || f.margin > 10:
		return fmt.Errorf("--margin: %v is not between 0 and 10", f.margin)
	case f.renew && f.against == "":
		return errors.New("--renew needs --against, the file that it writes")
	}
	return nil
}

func measure(ctx context.Context, c *cli.Call, f *flags) error {
	if err := f.check(); err != nil {
		return cli.Usagef("%v", err)
	}
	b, err := newBench(ctx, c, f)
	if err != nil {
		return err
	}
	b.Begun = func(facts []bench.Fact) { bench.Facts(c.Stdout, facts) }
	switch {
	case f.long > 0:
		err = b.Long(ctx, f.long, c.Stdout)
	case f.boxes > 0:
		err = b.Boxes(ctx, f.boxes, c.Stdout)
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

// measureAll creates the output files first, so that a file that cannot be
// written fails at once and not after a minute.
func measureAll(ctx context.Context, c *cli.Call, b *bench.Bench, f *flags) error {
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
	errs := []error{r.Table(c.Stdout)}
	if json != nil {
		errs = append(errs, r.JSON(json))
	}
	if svg != nil {
		errs = append(errs, r.SVG(svg))
	}
	return errors.Join(errs...)
}

// create returns nil for an empty name. A nil file can be closed.
func create(name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	return os.Create(name)
}

// guard compares ratios with stored ones, or stores them.
func guard(ctx context.Context, c *cli.Call, b *bench.Bench, f *flags) error {
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
	return printVerdicts(c, verdicts, f)
}

func printVerdicts(c *cli.Call, list []bench.Verdict, f *flags) error {
	var slow []string
	for _, v := range list {
		word := "ok  "
		if !v.Within {
			word = "slow"
			slow = append(slow, fmt.Sprintf("%q costs %.2f × a local shell, and the stored ratio is %.2f", v.Command, v.Ratio, v.Stored))
		}
		if err := c.Println(fmt.Sprintf("%s  %5.2f × local, stored %5.2f, at most %5.2f  %s", word, v.Ratio, v.Stored, v.Stored*(1+f.margin), v.Command)); err != nil {
			return err
		}
	}
	if slow == nil {
		return nil
	}
	return fmt.Errorf("slower than %s allows, best of three: %s\nIf that is intended, on an idle machine: warmbox-bench --against %s --renew",
		f.against, strings.Join(slow, "; "), f.against)
}

// ratiosComment begins a file of ratios.
const ratiosComment = `What commands cost through warmbox over stdio, as multiples of a local bash -c:
medians of the ratios of each round, the best of three runs.
Compare:  go run ./cmd/warmbox-bench --against FILE
Renew:    go run ./cmd/warmbox-bench --against FILE --renew, on an idle machine
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
