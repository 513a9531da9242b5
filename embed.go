// Package warmbox holds the files that travel inside the program, so that an
// installed one needs no checkout. The program itself is cmd/warmbox.
package warmbox

import _ "embed"

// Dockerfile builds the images that boxes run in by default.
//
//go:embed Dockerfile.sandbox
var Dockerfile string

// ExampleConfig shows every setting with its default.
//
//go:embed config.example.toml
var ExampleConfig string
