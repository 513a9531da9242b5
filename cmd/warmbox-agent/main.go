//go:build linux

// Command warmbox-agent is the first process of a box. It is started by warmbox
// and speaks with nobody else; package agent says what it does.
package main

import (
	"os"

	"github.com/warmbox/warmbox/sandbox/agent"
)

func main() {
	os.Exit(agent.Main(os.Args[1:]))
}
