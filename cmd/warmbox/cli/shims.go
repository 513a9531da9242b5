package cli

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// shims returns the shims of boxes, nil if there are none.
func (c *Config) shims() *sandbox.Shims {
	if len(c.Shims.Commands)+len(c.Shims.Deny) == 0 {
		return nil
	}
	return &sandbox.Shims{
		Names: c.Shims.Commands, Deny: c.Shims.Deny, TimeoutMillis: time.Duration(c.Shims.Timeout).Milliseconds(),
		OutputBytes: int64(c.Shims.OutputBytes), OutputLines: c.Shims.OutputLines,
	}
}

// shimNames checks the names of programs with shims.
func (c *Config) shimNames() error {
	if err := validShims(c.Shims.Commands); err != nil {
		return err
	}
	if s := c.shims(); s != nil && len(s.All()) > sandbox.MaxShims {
		return fmt.Errorf("there are %d names with those of shims.deny, and the maximum is %d", len(s.All()), sandbox.MaxShims)
	}
	return nil
}

// shimDenials checks the names and the sentences of denied programs.
func (c *Config) shimDenials() error {
	names := slices.Sorted(maps.Keys(c.Shims.Deny))
	if err := validShims(names); err != nil {
		return err
	}
	for _, name := range names {
		if text := c.Shims.Deny[name]; text == "" {
			return fmt.Errorf("the sentence for %s must not be empty; the model reads it in place of the program's output", name)
		} else if !sandbox.ShimText(text) {
			return fmt.Errorf("the sentence for %s must be one line of at most %d bytes", name, sandbox.MaxShimText)
		}
	}
	return nil
}

func validShims(names []string) error {
	for _, name := range names {
		if !sandbox.ShimName(name) {
			return fmt.Errorf("%q cannot be the name of a program with a shim; a name is that of a file in PATH, without a directory, arguments or patterns, such as grep: at most 64 bytes of letters, digits and . _ + - @ : , = %% ~ [ ], not beginning with -", name)
		}
	}
	return nil
}
