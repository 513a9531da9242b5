package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

func versionCommand() Command {
	return Command{
		Name: "version", Bare: true,
		Short: "prints the version",
		Run: func(_ context.Context, c *Call) error {
			_, err := fmt.Fprintf(c.Stdout, "%s %s %s/%s %s\n", c.program.Name, Version(), runtime.GOOS, runtime.GOARCH, runtime.Version())
			return err
		},
	}
}

// Version is what the build recorded: the module's version where it was
// installed as one, else made of the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
