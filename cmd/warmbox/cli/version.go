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

// Version returns the version in the build information: that of the installed module,
// or one derived from the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
