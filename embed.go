// Package warmbox holds the files that travel inside the program, so that an
// installed one needs no checkout. The program itself is cmd/warmbox.
package warmbox

import "embed"

// Dockerfile builds the images that boxes run in by default.
//
//go:embed Dockerfile.sandbox
var Dockerfile string

// ExampleConfig shows every setting with its default.
//
//go:embed config.example.toml
var ExampleConfig string

// AgentSource is all that the agent is built from but the modules that its go.mod
// names, laid out as in the repository.
//
//go:embed go.mod go.sum cmd/warmbox-agent/*.go sandbox/agent/*.go sandbox/agent/*.s sandbox/wire/*.go
var AgentSource embed.FS
