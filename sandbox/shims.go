package sandbox

import (
	"fmt"
	"syscall"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// Shims are the programs of a box in front of which the agent puts shims, and the rules for
// them. They are no boundary: a command can call a program by its path.
type Shims = wire.Shims

// ShimName reports whether a program of this name can have a shim.
func ShimName(name string) bool { return wire.ShimName(name) }

// ShimText reports whether a text can be the sentence of a denial.
func ShimText(text string) bool { return wire.ShimText(text) }

// The bounds of what ShimName, ShimText and the number of shims may be.
const (
	MaxShims    = wire.MaxShims
	MaxShimText = wire.MaxShimText
)

// Limited says what the limits of shims have cut of the output of a command. It is in no log.
type Limited struct {
	Calls        int64 // whose output was cut, as far as the agent has reported them
	Bytes, Lines int64 // the limits of a call; 0: none
}

// Limited returns what shims have cut of the output so far.
func (r *Run) Limited() Limited {
	l := Limited{Calls: r.limited.Load()}
	if rules := r.Box.programs.rules; rules != nil {
		l.Bytes, l.Lines = rules.OutputBytes, rules.OutputLines
	}
	return l
}

// checkShims returns why the agent has made no shims, if it should have. A box without them
// would run what the owner denies, and record no call.
func checkShims(answer wire.HelloBody) error {
	if answer.NoShims == 0 {
		return nil
	}
	return fmt.Errorf("the agent cannot make the directory of the shims in /dev/shm, TMPDIR, /tmp or HOME of the box: %w; one of them must be writable, and executable on the process backend; or remove the section [shims]", syscall.Errno(answer.NoShims))
}
