package cli

import (
	"errors"
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
	for _, name := range slices.Concat(c.Shims.Commands, slices.Sorted(maps.Keys(c.Shims.Deny))) {
		if !sandbox.ShimName(name) {
			return fmt.Errorf("%q cannot be the name of a program with a shim; a name is that of a file in PATH, without a directory, such as grep", name)
		}
	}
	if s := c.shims(); s != nil && len(s.All()) > sandbox.MaxShims {
		return fmt.Errorf("there are %d names, and the maximum is %d", len(s.All()), sandbox.MaxShims)
	}
	return nil
}

// shimDenials checks the sentences of denied programs.
func (c *Config) shimDenials() error {
	for _, name := range slices.Sorted(maps.Keys(c.Shims.Deny)) {
		if text := c.Shims.Deny[name]; text == "" {
			return errors.New("the sentence for " + name + " must not be empty; the model reads it in place of the program's output")
		} else if !sandbox.ShimText(text) {
			return fmt.Errorf("the sentence for %s must be one line of at most %d bytes", name, sandbox.MaxShimText)
		}
	}
	return nil
}
