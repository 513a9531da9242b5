package cli

import (
	"context"
	"errors"
	"flag"
)

func sweepCommand() Command {
	var all bool
	return Command{
		Name:  "sweep",
		Short: "removes what crashed servers left on the engine",
		Long: "Removes what servers of this user on this machine left if they ended without cleaning up: their boxes with\n" +
			"everything that belongs to them, socket directories, agents of other versions. Each server does the same when it\n" +
			"starts its first box. Persistent boxes stay until they expire. Files in workspaces are never removed. It does\n" +
			"not ask for confirmation, and prints one line for each thing that it removed.",
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&all, "all", false, "also remove the boxes of servers that are alive, and persistent boxes")
		},
		Run: func(ctx context.Context, c *Call) error {
			launcher, err := c.engine()
			if err != nil {
				return err
			}
			defer launcher.Close()
			removed, err := launcher.Sweep(ctx, all)
			for _, s := range removed {
				err = errors.Join(err, c.Println("removed "+s.What+" "+s.Name+": "+s.Why))
			}
			err = errors.Join(err, c.sweepRecords())
			if removed == nil && err == nil {
				err = c.Println("nothing to sweep")
			}
			return err
		},
	}
}
