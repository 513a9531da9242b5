//go:build linux

// Command warmbox-agent is the first process of a box. warmbox starts it and is the
// only program that it communicates with. Package agent implements it.
package main

import (
	"os"

	"github.com/warmbox/warmbox/sandbox/agent"
)

func main() {
	os.Exit(agent.Main(os.Args[1:]))
}
