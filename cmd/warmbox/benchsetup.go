package main

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
	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/docker"
)

// newBench looks at what is there to be measured, and says how.
func (c *call) newBench(ctx context.Context, f *benchFlags) (*bench.Bench, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &bench.Bench{
		Program: program, Image: c.config.Images.Default, Commands: f.commands, Quick: f.quick,
		Progress: c.stderr, Terminal: isTerminal(c.stderr),
	}
	if f.verbose {
		b.Log, b.Terminal = c.stderr, false
	}
	for _, name := range slices.Sorted(maps.Keys(c.given)) {
		b.Args = append(b.Args, "--"+name+"="+c.given[name])
	}
	b.Facts = append(b.Facts, bench.Fact{Name: "warmbox", Text: version() + ", " + runtime.Version()})
	b.Facts = append(b.Facts, machine()...)
	if err := c.benchBackend(ctx, b); err != nil {
		return nil, err
	}
	c.benchSettings(b)
	return b, nil
}

// benchBackend finds the engine. Without one what is ours can be measured all
// the same, on the backend that needs none.
func (c *call) benchBackend(ctx context.Context, b *bench.Bench) error {
	if c.config.Backend != "docker" {
		b.Facts = append(b.Facts, bench.Fact{Name: "backend", Text: "process: no isolation"})
		return nil
	}
	e, err := c.probe(ctx)
	if err == nil {
		b.Engine = e.Endpoint
		b.Facts = append(b.Facts, bench.Fact{Name: "engine", Text: fmt.Sprintf("%s at %s, runc %s", e.Version, e.Endpoint, e.Runc)},
			bench.Fact{Name: "image", Text: e.Image})
		return nil
	}
	if runtime.GOOS != "linux" || ctx.Err() != nil {
		return err
	}
	b.LeftOut = append(b.LeftOut, "all that needs an engine: "+sentence(err))
	b.Args = append(b.Args, "--backend=process")
	if len(c.config.Commands.Allow) == 0 {
		b.Args = append(b.Args, "--exec-whitelist="+everything)
	}
	b.Facts = append(b.Facts, bench.Fact{Name: "backend", Text: "process, with no isolation, for want of an engine: " + sentence(err)})
	return nil
}

// probe finds the engine, and an image of ours where one is meant: nobody can
// pull that.
func (c *call) probe(ctx context.Context) (docker.Engine, error) {
	launcher, err := newDocker(c.config, c.log)
	if err != nil {
		return docker.Engine{}, err
	}
	defer launcher.Close()
	e, err := launcher.Probe(ctx)
	if target, ours := strings.CutPrefix(e.Image, ownImages); err == nil && ours && !e.HasImage {
		err = sandbox.Errorf(sandbox.ImageNotFound, "warmbox image build --target "+target, "%s is not there yet", e.Image)
	}
	return e, err
}

// sentence is an error with what to try.
func sentence(err error) string {
	if e, ok := errors.AsType[*sandbox.Error](err); ok && e.Hint != "" {
		return err.Error() + " " + e.Hint
	}
	return err.Error()
}

// benchSettings turns on what makes commands dearer and nobody has turned on,
// turns off what would cost money or write into the user's own files, and says
// how all of it stands.
func (c *call) benchSettings(b *bench.Bench) {
	s := c.config
	say := func(name, format string, args ...any) {
		b.Facts = append(b.Facts, bench.Fact{Name: name, Text: fmt.Sprintf(format, args...)})
	}
	switch {
	case len(s.commands().Allow)+len(s.Commands.Deny) > 0:
		say("commands", "checked: a list of %d allowed and %d denied", len(s.Commands.Allow), len(s.Commands.Deny))
	default:
		const deny = "shutdown,reboot,mkfs"
		b.Args = append(b.Args, "--commands-deny="+deny)
		say("commands", "checked: a list of %d denied, made for this", len(list(deny)))
	}
	if s.Summary.Provider != "builtin" && s.Summary.Provider != "none" {
		b.Args = append(b.Args, "--summary-provider=builtin")
		say("summary", "the built-in one; %s is not asked for a bench", s.Summary.Provider)
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
	if s.AuditFile != "" {
		b.Args = append(b.Args, "--audit-file="+os.DevNull)
	}
	if b.Engine != "" {
		say("limits", "memory %v, %v CPUs, %d processes, network %s, read-only root, no capabilities", s.Exec.Memory, s.Exec.CPU, s.Exec.Pids, s.Network)
	}
	say("spares", "shells that stand ready in a box: %d", s.Exec.SpareShells)
}

// machine tells what this one is, and how busy it is.
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
