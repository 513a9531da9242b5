// Package warmbox embeds the files that an installed program needs without a checkout.
// The program itself is cmd/warmbox.
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

// AgentSource is the source of the agent, laid out as in the repository, without the
// modules that go.mod requires.
//
//go:embed go.mod go.sum cmd/warmbox-agent/*.go sandbox/agent/*.go sandbox/agent/*.s sandbox/wire/*.go
var AgentSource embed.FS
