package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/warmbox/warmbox/sandbox/policy"
)

// exitDenied is the exit code for a denied command, so scripts can tell it from a usage
// error.
const exitDenied = 3

func policyCommand() Command {
	var allow string
	return Command{
		Name: "policy", Arguments: "-- CMD…",
		Short: "prints whether the list of commands allows a command, and why not",
		Long: "Prints whether the lists of commands allow a command: the list of --allow, or if not given, the configured\n" +
			"lists, or if none are configured, the usual list. It runs nothing. One argument is a shell command line;\n" +
			"several are a program and its arguments.\n\n" +
			"  warmbox policy -- 'go test ./... | tail'\n" +
			"  warmbox policy --allow 'default,terraform plan' -- terraform apply\n\n" +
			"It prints allow and exits with 0, or prints deny with the reason and exits with 3. Without --allow, it\n" +
			"prints on standard error which list it used.\n\n" +
			"The usual list, for which default stands:\n\n" + usual(100),
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&allow, "allow", "", "`LIST` of what commands may begin with, such as 'go test,ls'; default stands for the usual list, and * alone allows all")
		},
		Run: func(_ context.Context, c *Call) error {
			if len(c.Args) == 0 {
				return Usagef("policy needs a command after its flags")
			}
			list, source := c.Config.policyLists(allow)
			if source != "" {
				fmt.Fprintln(c.Stderr, "checked against "+source)
			}
			return c.printDecision(list.Check(commandLine(c.Args), nil))
		},
	}
}

// usual lists the usual commands in lines of at most width bytes.
func usual(width int) string { return wrapped(policy.DefaultCommands(), width) }

// wrapped lists entries in indented lines of at most width bytes.
func wrapped(entries []string, width int) string {
	lines := []string{" "}
	for i, entry := range entries {
		if i > 0 {
			lines[len(lines)-1] += ","
		}
		if last := lines[len(lines)-1]; len(last)+len(entry)+2 > width {
			lines = append(lines, " ")
		}
		lines[len(lines)-1] += " " + entry
	}
	return strings.Join(lines, "\n")
}

// policyLists returns the lists that a command is checked against, and their source,
// "" for --allow.
func (c *Config) policyLists(allow string) (lists policy.Commands, source string) {
	if allow != "" {
		var given Config
		given.Commands.Allow = list(allow)
		return given.Lists(), ""
	}
	var from []string
	for _, key := range []string{"commands.allow", "commands.deny", "commands.release"} {
		if origin := c.origin[key]; origin != "" && !slices.Contains(from, origin) {
			from = append(from, origin)
		}
	}
	if len(c.Commands.Allow)+len(c.Commands.Deny) > 0 {
		return c.Lists(), strings.Join(from, " and ")
	}
	return policy.Commands{Allow: []string{"default"}, Release: c.Commands.Release}, "the usual list; none is configured, so a server allows everything"
}

func (c *Call) printDecision(err error) error {
	denial, ok := errors.AsType[*policy.Denial](err)
	if !ok {
		return errors.Join(err, c.Println("allow"))
	}
	lines := []string{"deny", denial.Reason}
	if denial.Accept != "" {
		lines = append(lines, denial.Accept)
	}
	return errors.Join(c.Println(lines...), &codeError{code: exitDenied})
}

func (c *Call) Println(lines ...string) error {
	_, err := fmt.Fprintln(c.Stdout, strings.Join(lines, "\n"))
	return err
}
