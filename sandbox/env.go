package sandbox

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Variables are bounded as JSON, the form in which they go to the agent.
const (
	// MaxEnv bounds the variables of a command. Linux takes 128 KiB as one, and a
	// quarter of the stack for all; with the longest command they fit one frame.
	MaxEnv = 256 << 10

	// MaxBoxEnv bounds the variables that a Request adds to a box. They share a frame
	// of 64 KiB with the variables of the configuration and some of ours.
	MaxBoxEnv = 48 << 10

	// MaxDefaultEnv bounds the variables that a configuration gives to every box.
	MaxDefaultEnv = 12 << 10
)

// checkEnv refuses variables that no process can have, and more than so many bytes of
// them.
func checkEnv(env map[string]string, most int) error {
	atMost := len("{}")
	for name, value := range env {
		const quotes, longest = len(`"":"",`), len(`\u0000`)
		atMost += quotes + longest*(len(name)+len(value))
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return Errorf(InvalidArgument, "A name must not be empty or contain \"=\", and neither name nor value may contain a NUL byte.", "env has an invalid variable %q", name)
		}
	}
	if atMost <= most {
		return nil // as JSON too, whatever the values are
	}
	text, err := json.Marshal(env)
	if err != nil {
		return err
	}
	if len(text) > most {
		return Errorf(InvalidArgument, "Give large values as stdin or in a file.", "env has %d bytes, more than the %d allowed", len(text), most)
	}
	return nil
}

// pairs renders variables in the order of their names.
func pairs(env map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
