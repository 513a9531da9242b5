package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/warmbox/warmbox/sandbox/docker"
)

func listCommand() Command {
	return Command{
		Name:  "list",
		Short: "lists the boxes of all warmbox servers of this user on this machine",
		Long: "Lists the boxes on the engine that servers of this user on this machine started, newest first: the name of\n" +
			"each, whether its server is alive, and how long a persistent box stays detached. Boxes of other machines and\n" +
			"users on the same engine are not shown, nor those of servers with another state directory ($XDG_STATE_HOME).",
		Run: func(ctx context.Context, c *Call) error {
			launcher, err := c.engine()
			if err != nil {
				return err
			}
			defer launcher.Close()
			boxes, err := launcher.Boxes(ctx)
			if err != nil {
				return err
			}
			return c.Println(describeBoxes(boxes, time.Now()))
		},
	}
}

// engine returns the launcher of a command about the boxes of all servers.
func (c *Call) engine() (*docker.Launcher, error) {
	if c.Config.Backend != "docker" {
		return nil, Usagef("%s needs the docker backend; boxes of the %s backend end with their server", c.Name, c.Config.Backend)
	}
	return NewDocker(c.Config, c.Log)
}

func describeBoxes(boxes []docker.BoxInfo, now time.Time) string {
	if len(boxes) == 0 {
		return "no boxes"
	}
	slices.SortFunc(boxes, func(a, b docker.BoxInfo) int { return b.Started.Compare(a.Started) })
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BOX\tNAME\tSERVER\tKEPT\tIMAGE\tAGE\tCONTAINER")
	for _, s := range boxes {
		server, name, kept := "gone", "-", "-"
		if s.Alive {
			server = "alive"
		}
		if s.Persistent != nil {
			name, kept = cmp.Or(s.Persistent.Name, name), short(s.Persistent.ReattachTimeout)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%.12s\n", s.ID, name, server, kept, s.Image, short(now.Sub(s.Started)), s.Container)
	}
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// short writes a duration in the largest unit of which it has at least two.
func short(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", max(0, d/time.Second))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
