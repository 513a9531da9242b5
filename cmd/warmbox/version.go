package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

func versionCommand() command {
	return command{
		name: "version", bare: true,
		short: "prints the version",
		run: func(_ context.Context, c *call) error {
			_, err := fmt.Fprintf(c.stdout, "warmbox %s %s/%s %s\n", version(), runtime.GOOS, runtime.GOARCH, runtime.Version())
			return err
		},
	}
}

// version is what the build recorded: the module's version where it was
// installed as one, else made of the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
