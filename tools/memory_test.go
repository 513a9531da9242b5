package tools

import (
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
)

// TestMemoryHintFollowsTheCountOfTheKernel: a command that lost a process, or may have, gets a hint
// with the limit and its setting; others get none.
func TestMemoryHintFollowsTheCountOfTheKernel(t *testing.T) {
	const (
		killed  = "the kernel killed a process of this container because memory was short"
		others  = "the process may have been theirs"
		success = "check whether its result is complete"
	)
	for name, c := range map[string]struct {
		exit  sandbox.Exit
		has   []string
		lacks []string
	}{
		"nothing happened":    {sandbox.Exit{Status: sandbox.Exited, Code: 137, Signal: "SIGKILL"}, nil, []string{"memory"}},
		"its own":             {sandbox.Exit{Status: sandbox.OOM, Code: 137, MemoryKill: &sandbox.MemoryKill{Limit: 2 << 30}}, []string{killed, "limit of 2 GB", "--exec-memory", "memory under [exec]"}, []string{others, success}},
		"its own, it went on": {sandbox.Exit{Status: sandbox.Exited, MemoryKill: &sandbox.MemoryKill{Limit: 512 << 20}}, []string{killed, success, "limit of 512 MB"}, []string{others}},
		"several ran":         {sandbox.Exit{Status: sandbox.Exited, Code: 1, MemoryKill: &sandbox.MemoryKill{Limit: 3 << 29, Shared: true}}, []string{killed, others, "limit of 1.5 GB"}, []string{success}},
		"unknown limit":       {sandbox.Exit{Status: sandbox.TimedOut, Code: 137, MemoryKill: &sandbox.MemoryKill{}}, []string{killed, "raise its limit ("}, []string{others, success}},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Join(memoryHint(c.exit), " ")
			for _, part := range c.has {
				if !strings.Contains(text, part) {
					t.Errorf("%q lacks %q", text, part)
				}
			}
			for _, part := range c.lacks {
				if strings.Contains(text, part) {
					t.Errorf("%q has %q", text, part)
				}
			}
		})
	}
}
