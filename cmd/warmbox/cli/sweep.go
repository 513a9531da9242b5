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
		Short: "removes what servers that ended without cleaning up left on the engine",
		Long: "Removes what servers of this user on this machine left that ended without cleaning up: their boxes with all that\n" +
			"belongs to them, directories of sockets, agents of other versions. Each server does the same when it starts its\n" +
			"first box. Boxes that are kept stay until their time is over, files in workspaces for good. It asks nothing, and\n" +
			"says what it removed, one line each.",
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&all, "all", false, "remove the boxes of servers that are alive too, and those that are kept")
		},
		Run: func(ctx context.Context, c *Call) error {
			launcher, err := c.engine()
			if err != nil {
				return err
			}
			defer launcher.Close()
			took, err := launcher.Sweep(ctx, all)
			for _, s := range took {
				err = errors.Join(err, c.Println("removed "+s.What+" "+s.Name+": "+s.Why))
			}
			if took == nil && err == nil {
				err = c.Println("nothing to sweep")
			}
			return err
		},
	}
}
