package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/warmbox/warmbox/spell"
)

// A Command is what a program does for one name, of one word or two.
type Command struct {
	Name      string // "exec", "image build"
	Arguments string // what follows the flags, for the usage line
	Short     string // one line, for the list of commands
	Long      string // for the command's own help
	Bare      bool   // accepts no settings
	Loud      bool   // logs at level info by default, and not at warn

	Hidden bool // no help names it: the program itself runs it

	// OwnSignals says that Run handles the signals that end a program. Otherwise the first
	// one ends its context.
	OwnSignals bool

	Flags func(*flag.FlagSet) // declares flags that are not settings
	Run   func(context.Context, *Call) error

	// Preset returns the settings that a flag of the command stands for, nil if it is not
	// given. It is called after the flags were parsed. Nil: the command has no such flag.
	Preset func() *preset

	// Refuse tells a client on standard input why the command did not start, which is
	// before Run sets Call.started. Nil: no client waits there.
	Refuse func(ctx context.Context, c *Call, why string)
}

// A Call is one run of a command.
type Call struct {
	Command
	Args   []string          // what follows the flags
	Given  map[string]string // settings given as flags, by flag
	Config *Config           // nil for a bare command
	Log    *slog.Logger

	Stdin          io.Reader
	Stdout, Stderr io.Writer

	program Program
	started bool // a client is served, and learns of errors from its server
}

// run parses the flags, loads the settings and runs the command.
func (c *Call) run(ctx context.Context, args []string) error {
	given, err := c.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return c.printHelp()
	}
	if err != nil {
		return err
	}
	if c.Bare {
		return c.Run(ctx, c)
	}
	c.Given = given
	var p *preset
	if c.Preset != nil {
		p = c.Preset()
	}
	if c.Config, err = loadPreset(p, given); err != nil {
		_, inFile := errors.AsType[*fileError](err)
		return &usageError{text: err.Error(), inFile: inFile}
	}
	closeLog, err := c.openLog()
	if err != nil {
		return err
	}
	return errors.Join(c.Run(ctx, c), closeLog())
}

// commands lists the program's own commands, then those of every program.
func (p Program) commands() []Command {
	return append(slices.Clip(p.Commands), versionCommand(), helpCommand())
}

// choose returns the command that args begin with, and the rest of args. If args
// begin with a flag, or are empty, it returns the default command: MCP clients
// start the bare program.
func (p Program) choose(args []string) (Command, []string, error) {
	if len(args) == 0 {
		args = []string{p.Default}
	}
	switch first := args[0]; {
	case isHelpFlag(first):
		args = append([]string{"help"}, args[1:]...)
	case first == "-v" || first == "-version" || first == "--version":
		args = append([]string{"version"}, args[1:]...)
	case strings.HasPrefix(first, "-"):
		args = append([]string{p.Default}, args...)
	case len(args) == 2 && isHelpFlag(args[1]) && len(p.group(first)) > 0:
		args = []string{"help", first}
	}
	if cmd, rest, ok := p.find(args); ok {
		return cmd, rest, nil
	}
	return Command{}, nil, p.unknownCommand(args)
}

func isHelpFlag(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }

// group returns the commands of two words that begin with a word.
func (p Program) group(word string) (list []Command) {
	for _, cmd := range p.commands() {
		if strings.HasPrefix(cmd.Name, word+" ") {
			list = append(list, cmd)
		}
	}
	return list
}

func (p Program) find(args []string) (cmd Command, rest []string, ok bool) {
	for _, cmd := range p.commands() {
		words := strings.Fields(cmd.Name)
		if len(args) >= len(words) && strings.Join(args[:len(words)], " ") == cmd.Name {
			return cmd, args[len(words):], true
		}
	}
	return Command{}, nil, false
}

func (p Program) unknownCommand(args []string) error {
	name := args[0]
	if sentence, ok := p.Moved[name]; ok {
		return Usagef("%s", sentence)
	}
	var names []string
	for _, cmd := range p.commands() {
		if !cmd.Hidden {
			names = append(names, cmd.Name)
		}
		if first, second, ok := strings.Cut(cmd.Name, " "); ok && first == name {
			if len(args) == 1 {
				return Usagef("%q needs another word: %s", first, second)
			}
			name += " " + args[1]
		}
	}
	return Usagef("unknown command %q%s", name, didYouMean(name, names))
}

// didYouMean ends a sentence about an unknown name with the known name that is
// nearest to it, if one is near.
func didYouMean(name string, known []string) string {
	if nearest := spell.Nearest(name, known); nearest != "" {
		return fmt.Sprintf("; did you mean %s?", nearest)
	}
	return ""
}

// parse reads the flags of a call and returns those of the settings, by flag.
func (c *Call) parse(args []string) (given map[string]string, err error) {
	given = map[string]string{}
	fs := c.flagSet(given)
	if err := fs.Parse(args); err != nil {
		return nil, c.badFlag(fs, err)
	}
	c.Args = fs.Args()
	if c.Arguments == "" && len(c.Args) > 0 {
		return nil, Usagef("%s accepts only flags, got %q", c.Name, c.Args[0])
	}
	return given, nil
}

// flagSet has the command's own flags and those of the settings that it accepts.
// The latter are only recorded: they are applied last, after the file and the
// environment.
func (c *Call) flagSet(given map[string]string) *flag.FlagSet {
	fs := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	if c.Flags != nil {
		c.Flags(fs)
	}
	if c.Bare {
		return fs
	}
	record := func(name string) func(string) error {
		return func(text string) error { given[name] = text; return nil }
	}
	fs.Func(configFlag, "", record(configFlag))
	for _, s := range c.settings() {
		if s.arg == "" {
			fs.BoolFunc(s.flag, "", record(s.flag))
		} else {
			fs.Func(s.flag, "", record(s.flag))
		}
	}
	return fs
}

// settings lists those that the command accepts.
func (c *Call) settings() []setting {
	var list []setting
	for _, s := range new(settings).table() {
		if s.only == "" || s.only == c.Name {
			list = append(list, s)
		}
	}
	return list
}

// badFlag rewords an error of package flag.
func (c *Call) badFlag(fs *flag.FlagSet, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var known []string
		fs.VisitAll(func(f *flag.Flag) { known = append(known, "--"+f.Name) })
		name = "--" + strings.TrimLeft(name, "-")
		suggestion := didYouMean(name, known)
		for _, s := range new(settings).table() { // the flags of some settings differ from their keys
			if "--"+keyFlag(s.key) == name && slices.Contains(known, "--"+s.flag) {
				suggestion = fmt.Sprintf("; the flag of %s is --%s", s.key, s.flag)
			}
		}
		text = fmt.Sprintf("%s has no flag %s%s", c.Name, name, suggestion)
	} else if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		text = fmt.Sprintf("the flag --%s needs a value", strings.TrimLeft(name, "-"))
	} else if match := badSwitch.FindStringSubmatch(text); match != nil {
		text = fmt.Sprintf("--%s: %s is not true or false; write --%[1]s alone to switch it on", match[2], match[1])
	} else if arg, ok := strings.CutPrefix(text, "bad flag syntax: "); ok {
		text = fmt.Sprintf("%q is not a flag of %s; write a flag like --name or --name=value", arg, c.Name)
	}
	return Usagef("%s", text)
}

// badSwitch matches what package flag says of a switch with a value. The flags of settings are
// only recorded, and those of commands themselves are text or switches.
var badSwitch = regexp.MustCompile(`^invalid boolean value (".*") for -([A-Za-z0-9-]+): `)
