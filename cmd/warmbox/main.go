// Command warmbox runs commands for language models in warm, hardened
// containers, and serves them over MCP. Package cli implements it.
package main

import "github.com/warmbox/warmbox/cmd/warmbox/cli"

func main() { cli.Main(cli.Warmbox()) }
