//go:build linux

package agent

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

const usage = `usage: agent serve --dial PATH
       agent serve --listen @NAME --peer-uid N
       agent serve --stdio
       agent dial @NAME --pid N`

// Main is the agent's program. It returns the exit code; if that is not 0, it has written
// one line with the reason to stderr.
func Main(args []string) int {
	if err := execute(args); err != nil {
		fmt.Fprintln(os.Stderr, "warmbox agent:", err)
		return 1
	}
	return 0
}

func execute(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "serve":
		return serve(args[1:])
	case "dial":
		return relay(args[1:])
	}
	return errors.New(usage)
}

func serve(args []string) error {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	path := fs.String("dial", "", "")
	listen := fs.String("listen", "", "")
	peer := fs.Int("peer-uid", -1, "")
	stdio := fs.Bool("stdio", false, "")
	if err := fs.Parse(args); err != nil || fs.NArg() > 0 {
		return errors.New(usage)
	}
	// Before any other process can run in the box.
	if err := harden(); err != nil {
		return err
	}
	hosts, err := openHosts(*path, *listen, *peer, *stdio)
	if err != nil {
		return err
	}
	a, err := newAgent(hosts)
	if err != nil {
		return err
	}
	return a.serve()
}

// openHosts returns the source of hosts that the flags name.
func openHosts(path, listen string, peer int, stdio bool) (hostSource, error) {
	switch {
	case path != "":
		return newDialer(path), nil
	case listen != "" && peer >= 0:
		return newListener(listen, peer)
	case stdio:
		return &singleHost{stream: stdioStream()}, nil
	}
	return nil, errors.New(usage)
}
