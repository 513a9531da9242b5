package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// A command is a word behind the program's name, or two.
type command struct {
	name  string // "exec", "image build"
	args  string // what follows the flags, in the help
	short string // one line, for the overview
	long  string // for the command's own help
	bare  bool   // takes no settings
	loud  bool   // logs what it does unless told otherwise, and not only trouble

	flags func(*flag.FlagSet) // declares its own flags, those that are no settings
	run   func(context.Context, *call) error
}

// A call is one run of a command.
type call struct {
	command
	args   []string
	given  map[string]string // flags of settings, by name
	config *config
	log    *slog.Logger

	stdin          io.Reader
	stdout, stderr io.Writer
}

func commands() []command {
	return []command{
		stdioCommand(), httpCommand(), execCommand(), doctorCommand(), benchCommand(),
		imageBuildCommand(), listCommand(), sweepCommand(), policyCommand(), summarizeCommand(), configCommand(), versionCommand(), helpCommand(),
	}
}

// choose finds the command that args begin with, and returns the rest of them.
// Where they begin with none, that is stdio: clients start the bare program.
func choose(all []command, args []string) (command, []string, error) {
	if len(args) == 0 {
		args = []string{"stdio"}
	}
	switch first := args[0]; {
	case first == "-h" || first == "-help" || first == "--help":
		args = append([]string{"help"}, args[1:]...)
	case first == "-version" || first == "--version":
		args = append([]string{"version"}, args[1:]...)
	case strings.HasPrefix(first, "-"):
		args = append([]string{"stdio"}, args...)
	}
	if cmd, rest, ok := find(all, args); ok {
		return cmd, rest, nil
	}
	return command{}, nil, unknownCommand(all, args)
}

func find(all []command, args []string) (cmd command, rest []string, ok bool) {
	for _, cmd := range all {
		words := strings.Fields(cmd.name)
		if len(args) >= len(words) && strings.Join(args[:len(words)], " ") == cmd.name {
			return cmd, args[len(words):], true
		}
	}
	return command{}, nil, false
}

func unknownCommand(all []command, args []string) error {
	name := args[0]
	var names []string
	for _, cmd := range all {
		names = append(names, cmd.name)
		if first, second, ok := strings.Cut(cmd.name, " "); ok && first == name {
			if len(args) == 1 {
				return &usageError{fmt.Sprintf("%q wants another word: %s", first, second), ""}
			}
			name += " " + args[1]
		}
	}
	return &usageError{fmt.Sprintf("there is no command %q%s", name, didYouMean(name, names)), ""}
}

var errHelp = flag.ErrHelp

// parse reads the flags of a call and returns those of the settings, by name.
func (c *call) parse(args []string) (given map[string]string, err error) {
	given = map[string]string{}
	fs := c.flagSet(given)
	if err := fs.Parse(args); err != nil {
		return nil, c.badFlag(fs, err)
	}
	c.args = fs.Args()
	if c.command.args == "" && len(c.args) > 0 {
		return nil, &usageError{fmt.Sprintf("%s takes nothing but flags, and got %q", c.name, c.args[0]), c.name}
	}
	return given, nil
}

// flagSet has the command's own flags and those of the settings that it takes.
// The latter are only noted: they come last, over the file and the environment.
func (c *call) flagSet(given map[string]string) *flag.FlagSet {
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	if c.flags != nil {
		c.flags(fs)
	}
	if c.bare {
		return fs
	}
	note := func(name string) func(string) error {
		return func(text string) error { given[name] = text; return nil }
	}
	fs.Func(configFlag, "", note(configFlag))
	for _, s := range c.settings() {
		if s.arg == "" {
			fs.BoolFunc(s.flag, "", note(s.flag))
		} else {
			fs.Func(s.flag, "", note(s.flag))
		}
	}
	return fs
}

// settings lists those that the command takes.
func (c *call) settings() []setting {
	var list []setting
	for _, s := range new(settings).table() {
		if s.only == "" || s.only == c.name {
			list = append(list, s)
		}
	}
	return list
}

// badFlag says in a sentence what package flag says in its own way.
func (c *call) badFlag(fs *flag.FlagSet, err error) error {
	if errors.Is(err, errHelp) {
		return errHelp
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var known []string
		fs.VisitAll(func(f *flag.Flag) { known = append(known, "--"+f.Name) })
		name = "--" + strings.TrimLeft(name, "-")
		meant := didYouMean(name, known)
		for _, s := range new(settings).table() { // some flags are not made of their keys
			if "--"+keyFlag(s.key) == name && slices.Contains(known, "--"+s.flag) {
				meant = fmt.Sprintf("; %s is --%s", s.key, s.flag)
			}
		}
		text = fmt.Sprintf("%s has no flag %s%s", c.name, name, meant)
	} else if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		text = fmt.Sprintf("the flag --%s needs a value", strings.TrimLeft(name, "-"))
	}
	return &usageError{text, c.name}
}
