package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/warmbox/warmbox/bench"
	"github.com/warmbox/warmbox/cmd/warmbox/cli"
	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/docker"
)

// newBench finds out what this machine has to measure, and describes it.
func newBench(ctx context.Context, c *cli.Call, f *flags) (*bench.Bench, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &bench.Bench{
		Program: self, Image: c.Config.Images.Default, Commands: f.commands, Quick: f.quick,
		Progress: c.Stderr, Terminal: cli.IsTerminal(c.Stderr),
	}
	if f.verbose {
		b.Log, b.Terminal = c.Stderr, false
	}
	for _, name := range slices.Sorted(maps.Keys(c.Given)) {
		b.Args = append(b.Args, "--"+name+"="+c.Given[name])
	}
	b.Facts = append(b.Facts, bench.Fact{Name: "warmbox", Text: cli.Version() + ", " + runtime.Version()})
	b.Facts = append(b.Facts, machine()...)
	if err := setBackend(ctx, c, b); err != nil {
		return nil, err
	}
	setCosts(c.Config, b)
	return b, nil
}

// setBackend finds the engine. Without one, warmbox is measured on the process
// backend.
func setBackend(ctx context.Context, c *cli.Call, b *bench.Bench) error {
	if c.Config.Backend != "docker" {
		b.Facts = append(b.Facts, bench.Fact{Name: "backend", Text: "process: no isolation"})
		return nil
	}
	e, err := probe(ctx, c)
	if err == nil {
		b.Engine = e.Endpoint
		b.Facts = append(b.Facts, bench.Fact{Name: "engine", Text: fmt.Sprintf("%s at %s, runc %s", e.Version, e.Endpoint, e.Runc)},
			bench.Fact{Name: "image", Text: e.Image})
		return nil
	}
	if runtime.GOOS != "linux" || ctx.Err() != nil {
		return err
	}
	b.Skipped = append(b.Skipped, "everything that needs an engine: "+sentence(err))
	b.Args = append(b.Args, "--backend=process")
	if len(c.Config.Commands.Allow) == 0 {
		b.Args = append(b.Args, "--exec-whitelist=*")
	}
	b.Facts = append(b.Facts, bench.Fact{Name: "backend", Text: "process, without isolation, because there is no engine: " + sentence(err)})
	return nil
}

// probe finds the engine, and requires the image if the engine cannot pull it.
func probe(ctx context.Context, c *cli.Call) (docker.Engine, error) {
	launcher, err := cli.NewDocker(c.Config, c.Log)
	if err != nil {
		return docker.Engine{}, err
	}
	defer launcher.Close()
	e, err := launcher.Probe(ctx)
	if err == nil {
		err = cli.MissingImage(e)
	}
	return e, err
}

// sentence is an error with its hint.
func sentence(err error) string {
	if e, ok := errors.AsType[*sandbox.Error](err); ok && e.Hint != "" {
		return err.Error() + " " + e.Hint
	}
	return err.Error()
}

// setCosts turns on what adds to the cost of a command and is not configured. It
// turns off what would cost money or write to the user's own files. It describes
// all of these settings.
func setCosts(s *cli.Config, b *bench.Bench) {
	say := func(name, format string, args ...any) {
		b.Facts = append(b.Facts, bench.Fact{Name: name, Text: fmt.Sprintf(format, args...)})
	}
	switch {
	case len(s.Lists().Allow)+len(s.Commands.Deny) > 0:
		say("commands", "checked: a list of %d allowed and %d denied", len(s.Commands.Allow), len(s.Commands.Deny))
	default:
		deny := []string{"shutdown", "reboot", "mkfs"}
		b.Args = append(b.Args, "--commands-deny="+strings.Join(deny, ","))
		say("commands", "checked: a list of %d denied, made for this", len(deny))
	}
	if s.Summary.Provider != "builtin" && s.Summary.Provider != "none" {
		b.Args = append(b.Args, "--summary-provider=builtin")
		say("summary", "builtin; %s is not asked during a bench", s.Summary.Provider)
	} else {
		say("summary", "%s", s.Summary.Provider)
	}
	say("log", "every byte of every command, in a temporary directory on this machine's disk")
	if len(s.Secrets.Env)+len(s.Secrets.Give) == 0 {
		b.Args, b.Env = append(b.Args, "--secrets-env=BENCH_SECRET"), []string{"BENCH_SECRET=" + rand.Text()}
		say("secrets", "masked: those of well-known forms, and one value made for this")
	} else {
		say("secrets", "masked: those of well-known forms, and %d values", len(s.Secrets.Env)+len(s.Secrets.Give))
	}
	if s.Audit.File != "" {
		b.Args = append(b.Args, "--audit-file="+os.DevNull)
	}
	if b.Engine != "" {
		say("limits", "memory %v, %v CPUs, %d processes, network %s, read-only root, no capabilities", s.Exec.Memory, s.Exec.CPU, s.Exec.Pids, s.Network)
	}
	say("spares", "spare shells of a box: %d", s.Exec.SpareShells)
}

// machine describes this machine, and how busy it is.
func machine() []bench.Fact {
	text := fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(load), " ")
		text += ", load " + first
	}
	facts := []bench.Fact{{Name: "machine", Text: text}}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		facts = append(facts, bench.Fact{Name: "kernel", Text: strings.TrimSpace(string(release))})
	}
	return facts
}
