package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/warmbox/warmbox/sandbox/policy"
)

// exitDenied tells scripts that the command may not run, as apart from a
// mistake in how they asked.
const exitDenied = 3

func policyCommand() command {
	var allow string
	return command{
		name: "policy", args: "-- CMD…", bare: true,
		short: "says whether a list of commands allows a command, and why not",
		long: "Says whether a list of commands allows a command. Nothing is run. One word is a line for the shell; several\n" +
			"are a program and its arguments.\n\n" +
			"  warmbox policy -- 'go test ./... | tail'\n" +
			"  warmbox policy --allow 'default,terraform plan' -- terraform apply\n\n" +
			"It prints allow and exits with 0, or prints deny with the reason and exits with 3.",
		flags: func(fs *flag.FlagSet) {
			fs.StringVar(&allow, "allow", "default", "the `LIST` of what commands may begin with, such as 'go test,ls'; default stands for the usual ones")
		},
		run: func(_ context.Context, c *call) error {
			if len(c.args) == 0 {
				return &usageError{"policy wants a command behind its flags", "policy"}
			}
			list := policy.Commands{Allow: strings.Split(allow, ",")}
			return c.printDecision(list.Check(commandLine(c.args), nil))
		},
	}
}

func (c *call) printDecision(err error) error {
	denial, ok := errors.AsType[*policy.Denial](err)
	if !ok {
		return errors.Join(err, c.println("allow"))
	}
	lines := []string{"deny", denial.Reason}
	if denial.Accept != "" {
		lines = append(lines, denial.Accept)
	}
	return errors.Join(c.println(lines...), &codeError{code: exitDenied})
}

func (c *call) println(lines ...string) error {
	_, err := fmt.Fprintln(c.stdout, strings.Join(lines, "\n"))
	return err
}
