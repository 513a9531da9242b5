// Command warmbox-bench measures what a command costs through warmbox on this
// machine. It contains the server that it measures. Package command implements
// it.
package main

import (
	"github.com/warmbox/warmbox/bench/command"
	"github.com/warmbox/warmbox/cmd/warmbox/cli"
)

func main() { cli.Main(command.Program()) }
