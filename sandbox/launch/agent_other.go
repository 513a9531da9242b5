//go:build !linux

package launch

import (
	"errors"
	"os/exec"
	"runtime"
)

// EmbeddedAgent fails: the agent is a Linux program.
func EmbeddedAgent() (cmd *exec.Cmd, release func(), err error) {
	return nil, nil, errors.New("the process backend needs Linux, and this is " + runtime.GOOS + "; use the docker backend")
}

func ownSession(*exec.Cmd) {}
