package model

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/warmbox/warmbox/sandbox/summary"
)

// pipeDelay is how long the pipes of a command may stay open after its end.
const pipeDelay = 100 * time.Millisecond

// Command returns a Func that runs a command to write the summary. The command reads
// the prompt from standard input and writes the reply to standard output. It runs on
// this host, as the user of this program, and without a shell. It is killed at the
// deadline, and its child processes at the deadline or its end.
//
// Its environment has only PATH and HOME, since other variables may contain secrets. A
// user can set more with env(1).
func Command(argv ...string) summary.Func {
	return func(ctx context.Context, d summary.Digest) (string, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		system, user := prompt(d)
		reply := &sink{most: maxReply, full: cancel}
		stderr := &sink{most: maxMessage, full: func() {}}
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
		cmd.Stdin = strings.NewReader(system + "\n" + user + "\n")
		cmd.Stdout, cmd.Stderr = reply, stderr
		cmd.WaitDelay = pipeDelay
		ownGroup(cmd)
		err := cmd.Run()
		endGroup(cmd)
		switch {
		case reply.overflowed:
			return "", fmt.Errorf("the command wrote more than %d bytes", maxReply)
		case err != nil && len(stderr.text) > 0:
			return "", fmt.Errorf("%w: %s", err, oneLine(string(stderr.text)))
		case errors.Is(err, exec.ErrWaitDelay):
			return string(reply.text), nil // a child process still has its pipes
		}
		return string(reply.text), err
	}
}

// A sink stores the first bytes that are written to it and discards the rest without an
// error. It calls full when it discards bytes.
type sink struct {
	most       int
	text       []byte
	overflowed bool
	full       func()
}

func (s *sink) Write(p []byte) (int, error) {
	room := min(s.most-len(s.text), len(p))
	s.text = append(s.text, p[:room]...)
	if room < len(p) {
		s.overflowed = true
		s.full()
	}
	return len(p), nil
}
