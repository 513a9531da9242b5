package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/warmbox/warmbox"
)

func helpCommand() command {
	return command{
		name: "help", args: "[COMMAND]", bare: true,
		short: "tells about warmbox, or about one of its commands",
		run: func(_ context.Context, c *call) error {
			if len(c.args) == 0 {
				return c.printOverview()
			}
			cmd, _, ok := find(commands(), c.args)
			if !ok {
				return unknownCommand(commands(), c.args)
			}
			c.command = cmd
			return c.printHelp()
		},
	}
}

func configCommand() command {
	return command{
		name: "config", bare: true,
		short: "prints a configuration file that shows every setting",
		long:  "Prints an example of a configuration file, with every setting, its default and why it is so. To start from it:\n\n  mkdir -p ~/.config/warmbox\n  warmbox config > ~/.config/warmbox/config.toml",
		run: func(_ context.Context, c *call) error {
			_, err := fmt.Fprint(c.stdout, warmbox.ExampleConfig)
			return err
		},
	}
}

func (c *call) printOverview() error {
	var b bytes.Buffer
	b.WriteString("warmbox runs commands for language models in warm, hardened containers.\n\n" +
		"A client such as Claude Code starts it and speaks MCP with it:\n\n" +
		"  claude mcp add warmbox -- warmbox --workspace .\n\n" +
		"To see whether everything is there, and to try it by hand:\n\n" +
		"  warmbox doctor\n" +
		"  warmbox exec -- 'uname -a; id'\n\n" +
		"Commands:\n\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cmd := range commands() {
		fmt.Fprintf(w, "  %s\t%s\n", cmd.name, cmd.short)
	}
	w.Flush()
	b.WriteString("\nwarmbox help COMMAND tells more. Without a command it is stdio.\n")
	_, err := c.stdout.Write(b.Bytes())
	return err
}

// printHelp prints the help of the call's command.
func (c *call) printHelp() error {
	if c.name == "help" {
		return c.printOverview()
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "Usage: %s\n\n%s\n", c.usage(), c.longHelp())
	c.writeOwnFlags(&b)
	if !c.bare {
		c.writeSettings(&b)
	}
	_, err := c.stdout.Write(b.Bytes())
	return err
}

func (c *call) usage() string {
	words := []string{"warmbox", c.name}
	if !c.bare {
		words = append(words, "[flags]")
	}
	if c.command.args != "" {
		words = append(words, c.command.args)
	}
	return strings.Join(words, " ")
}

func (c *call) longHelp() string {
	if c.long != "" {
		return c.long
	}
	return "warmbox " + c.name + " " + c.short + "."
}

func (c *call) writeOwnFlags(b *bytes.Buffer) {
	if c.flags == nil {
		return
	}
	b.WriteString("\nFlags:\n\n")
	own := flag.NewFlagSet(c.name, flag.ContinueOnError)
	c.flags(own)
	own.VisitAll(func(f *flag.Flag) {
		arg, help := flag.UnquoteUsage(f)
		writeFlag(b, f.Name, arg, help)
	})
}

func (c *call) writeSettings(b *bytes.Buffer) {
	fmt.Fprintf(b, "\nSettings. A flag wins over the environment variable, that one over the configuration file:\n\n")
	writeFlag(b, configFlag, "FILE", "the configuration file ("+envPrefix+"CONFIG); if not given, config.toml in the user's warmbox configuration directory, if it is there")
	for _, s := range c.settings() {
		from := s.env
		if s.def != "" && s.arg != "" {
			from = "default " + s.def + "; " + from
		}
		writeFlag(b, s.flag, s.arg, s.help+" ("+from+")")
	}
}

// writeFlag puts the sentence under the flag, as package flag does: some are
// too long to stand beside it.
func writeFlag(b *bytes.Buffer, name, arg, help string) {
	fmt.Fprintf(b, "  %s\n        %s\n", strings.TrimSpace("--"+name+" "+arg), help)
}
