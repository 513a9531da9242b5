package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/warmbox/warmbox"
)

func helpCommand() Command {
	return Command{
		Name: "help", Arguments: "[COMMAND]", Bare: true,
		Short: "prints help about the program, or about one of its commands",
		Run: func(_ context.Context, c *Call) error {
			if len(c.Args) == 0 {
				return c.printOverview()
			}
			if cmd, _, ok := c.program.find(c.Args); ok {
				c.Command = cmd
				return c.printHelp()
			}
			if list := c.program.group(c.Args[0]); len(c.Args) == 1 && len(list) > 0 {
				return c.printGroup(list)
			}
			return c.program.unknownCommand(c.Args)
		},
	}
}

func configCommand() Command {
	return Command{
		Name: "config", Bare: true,
		Short: "prints an example configuration file with every setting",
		Long:  "Prints an example configuration file: every setting, its default, and the reason for it. To start from it:\n\n  mkdir -p ~/.config/warmbox\n  warmbox config > ~/.config/warmbox/config.toml",
		Run: func(_ context.Context, c *Call) error {
			_, err := fmt.Fprint(c.Stdout, warmbox.ExampleConfig)
			return err
		},
	}
}

func (c *Call) printOverview() error {
	p := c.program
	var b bytes.Buffer
	b.WriteString(p.Overview)
	writeCommands(&b, p.commands())
	fmt.Fprintf(&b, "\n%s help COMMAND prints more about one. The default command is %s.\n", p.Name, p.Default)
	_, err := c.Stdout.Write(b.Bytes())
	return err
}

// printGroup prints the commands that begin with the same word.
func (c *Call) printGroup(list []Command) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Usage: %s %s COMMAND\n\n", c.program.Name, c.Args[0])
	writeCommands(&b, list)
	fmt.Fprintf(&b, "\n%s help %s prints more.\n", c.program.Name, list[0].Name)
	_, err := c.Stdout.Write(b.Bytes())
	return err
}

func writeCommands(b *bytes.Buffer, list []Command) {
	b.WriteString("Commands:\n\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, cmd := range list {
		if !cmd.Hidden {
			fmt.Fprintf(w, "  %s\t%s\n", cmd.Name, cmd.Short)
		}
	}
	w.Flush()
}

// printHelp prints the help of the call's command.
func (c *Call) printHelp() error {
	if c.Name == "help" {
		return c.printOverview()
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "Usage: %s\n\n%s\n", c.usage(), c.longHelp())
	c.writeOwnFlags(&b)
	if !c.Bare {
		c.writeSettings(&b)
	}
	_, err := c.Stdout.Write(b.Bytes())
	return err
}

func (c *Call) usage() string {
	words := []string{c.program.Name, c.Name}
	if !c.Bare {
		words = append(words, "[flags]")
	}
	if c.Arguments != "" {
		words = append(words, c.Arguments)
	}
	return strings.Join(words, " ")
}

func (c *Call) longHelp() string {
	if c.Long != "" {
		return c.Long
	}
	return c.program.Name + " " + c.Name + " " + c.Short + "."
}

func (c *Call) writeOwnFlags(b *bytes.Buffer) {
	if c.Flags == nil {
		return
	}
	b.WriteString("\nFlags:\n\n")
	own := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	c.Flags(own)
	own.VisitAll(func(f *flag.Flag) {
		arg, help := flag.UnquoteUsage(f)
		writeFlag(b, f.Name, arg, help)
	})
}

func (c *Call) writeSettings(b *bytes.Buffer) {
	fmt.Fprintf(b, "\nSettings. A flag overrides the environment variable, which overrides the configuration file:\n\n")
	writeFlag(b, configFlag, "FILE", "the configuration file ("+envPrefix+"CONFIG); if not given, config.toml in the user's warmbox configuration directory, if it exists")
	var tables []setting
	for _, s := range c.settings() {
		if s.isTable() {
			tables = append(tables, s)
			continue
		}
		from := s.env
		if s.def != "" && s.arg != "" {
			from = "default " + s.def + "; " + from
		}
		writeFlag(b, s.flag, s.arg, s.help+" ("+from+")")
	}
	b.WriteString("\nSettings that are tables. They have no flag and no environment variable: set them in the configuration file:\n\n")
	for _, s := range tables {
		writeEntry(b, s.key, s.help)
	}
}

// writeFlag puts the help under the flag, as package flag does: many sentences
// are too long for the same line.
func writeFlag(b *bytes.Buffer, name, arg, help string) {
	writeEntry(b, strings.TrimSpace("--"+name+" "+arg), help)
}

func writeEntry(b *bytes.Buffer, name, help string) {
	fmt.Fprintf(b, "  %s\n        %s\n", name, help)
}
