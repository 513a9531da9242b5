//go:build !linux

package launch

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
)

// OwnAgent fails: the agent is a Linux program.
func OwnAgent(context.Context) (cmd *exec.Cmd, release func(), err error) {
	return nil, nil, errors.New("the process backend needs Linux, and this is " + runtime.GOOS + "; use the docker backend")
}

func ownSession(*exec.Cmd) {}
