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

// afterDeath is how long the pipes of a command may stay open behind its end.
const afterDeath = 100 * time.Millisecond

// Command returns a Func that has a command write the summary: it reads the
// prompt from its standard input and writes to its standard output. It runs on
// this host, as the user who runs this program, and no shell reads its words.
// It and what it started are killed at the deadline, and when it has ended.
//
// Of the environment it gets PATH and HOME: the rest may hold what is none of
// its business. What else it needs, env(1) can give it.
func Command(argv ...string) summary.Func {
	return func(ctx context.Context, d summary.Digest) (string, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		system, user := prompt(d)
		reply := &sink{most: maxReply, full: cancel}
		complaint := &sink{most: maxComplaint, full: func() {}}
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
		cmd.Stdin = strings.NewReader(system + "\n" + user + "\n")
		cmd.Stdout, cmd.Stderr = reply, complaint
		cmd.WaitDelay = afterDeath
		ownGroup(cmd)
		err := cmd.Run()
		endGroup(cmd)
		switch {
		case reply.overflowed:
			return "", fmt.Errorf("it wrote more than %d bytes", maxReply)
		case err != nil && len(complaint.text) > 0:
			return "", fmt.Errorf("%w: %s", err, oneLine(string(complaint.text)))
		case errors.Is(err, exec.ErrWaitDelay):
			return string(reply.text), nil // it left something behind that has its pipes
		}
		return string(reply.text), err
	}
}

// A sink keeps the first bytes that are written to it, and takes the rest: who
// writes is not to notice. It calls full when there is a rest.
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
