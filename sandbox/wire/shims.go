package wire

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxShims bounds the names in a Shims.
	MaxShims = 256

	// MaxShimText bounds the sentence of a denial, in bytes.
	MaxShimText = 1000

	maxShimName = 64
)

// Shims are the programs of a box in front of which the agent puts shims: a directory that
// is first in the PATH of every command has a link for each name. A shim asks the agent,
// and starts the real program if the agent allows it. Whoever calls the program by its path
// meets no shim.
type Shims struct {
	Names         []string          `json:"names"`                   // see ShimName; with those of Deny at most MaxShims
	Deny          map[string]string `json:"deny,omitempty"`          // names that do not run, each with a sentence that says why
	TimeoutMillis int64             `json:"timeoutMillis,omitempty"` // of each call; 0: none
	OutputBytes   int64             `json:"outputBytes,omitempty"`   // how much a call prints to the run's own output; 0: no limit
	OutputLines   int64             `json:"outputLines,omitempty"`   // likewise
}

// All returns the names, and those of Deny that are not among them.
func (s *Shims) All() []string {
	seen := map[string]bool{}
	var all []string
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	for _, name := range s.Names {
		add(name)
	}
	for name := range s.Deny {
		add(name)
	}
	return all
}

// Check returns a violation if the agent must refuse the rules.
func (s *Shims) Check() error {
	all := s.All()
	if len(all) > MaxShims {
		return Violation("%v with %d shims, more than the %d allowed", Hello, len(all), MaxShims)
	}
	for _, name := range all {
		if !ShimName(name) {
			return Violation("%v with an invalid name of a shim, of %d bytes", Hello, len(name))
		}
	}
	for _, text := range s.Deny {
		if !ShimText(text) {
			return Violation("%v with an invalid sentence of %d bytes for a shim", Hello, len(text))
		}
	}
	if s.TimeoutMillis < 0 || s.OutputBytes < 0 || s.OutputLines < 0 {
		return Violation("%v with a negative limit of shims", Hello)
	}
	return nil
}

// ShimName reports whether s can be the name of a shim: 1 to 64 bytes of the letters, digits
// and other characters that names of programs have. A blank or a * is a mistake: "git push" and
// "*" would be shims that no call reaches.
func ShimName(s string) bool {
	if s == "" || len(s) > maxShimName || s == "." || s == ".." || s[0] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._+-@:,=%~[]", r)
	})
}

// ShimText reports whether s can be the sentence of a denial: one line.
func ShimText(s string) bool {
	return s != "" && len(s) <= MaxShimText && !strings.ContainsFunc(s, control)
}

func control(r rune) bool { return r < ' ' || r == 0x7F }
