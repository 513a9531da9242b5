package tools

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

// execHints are the sentences of a hint about a command.
func (s *Set) execHints(ctx context.Context, run *sandbox.Run, exit sandbox.Exit) []string {
	var list []string
	switch exit.Status {
	case sandbox.Running:
		if exit.Err != nil {
			list = append(list, lostHint(exit.Err))
		}
		if run.Command.TTY == nil || exit.Err != nil {
			list = append(list, runningHint(run.Command.Timeout))
		}
		if run.Command.Interactive && run.Command.TTY == nil && exit.Err == nil {
			list = append(list, "Its stdin is open: input writes to it.")
		}
	case sandbox.TimedOut:
		list = append(list, fmt.Sprintf("After %s the command was killed, with every process that it had started. Give a larger timeoutSeconds, or let the command do less at once.", took(run.Command.Timeout)))
	case sandbox.Killed:
		list = append(list, killedHint(ctx, run.Box, exit.Err))
	case sandbox.Lost:
		list = append(list, lostHint(exit.Err))
	}
	list = append(list, memoryHint(exit)...)
	list = append(list, limitedHint(run.Limited())...)
	list = append(list, s.leftoverHint(run.ID, exit)...)
	return append(list, shellHint(run.Command.Shell, exit.Shell)...)
}

// leftoverHint is about processes that a command left behind.
func (s *Set) leftoverHint(id string, exit sandbox.Exit) []string {
	switch {
	case len(exit.Leftover) == 0:
		return nil
	case s.Loop:
		return []string{"What these processes print is not shown; a later command can end them (kill)."}
	}
	return []string{fmt.Sprintf(`The log gets what these processes print; stop {"execId": %q} ends them.`, id)}
}

// limitedHint reports calls whose output a shim cut before it reached the log.
func limitedHint(l sandbox.Limited) []string {
	if l.Calls == 0 {
		return nil
	}
	var limits []string
	if l.Bytes > 0 {
		limits = append(limits, excerpt.Count(l.Bytes, "byte"))
	}
	if l.Lines > 0 {
		limits = append(limits, excerpt.Count(l.Lines, "line"))
	}
	return []string{fmt.Sprintf("The output of %s was cut at ...[truncated], and the rest is not in the log: the owner's setting [shims] shows at most %s of a call of some programs. Pipes and files get all of it: cat FILE | sed -n '201,400p', cat FILE | grep WORD, or > FILE.", excerpt.Count(l.Calls, "call"), strings.Join(limits, " and "))}
}

// memoryHint reports a process that the kernel killed. The kernel counts those of a container,
// so the hint does not say whose process it was.
func memoryHint(exit sandbox.Exit) []string {
	kill := exit.MemoryKill
	if kill == nil {
		return nil
	}
	list := []string{"While the command ran, the kernel killed a process of this container because memory was short."}
	switch {
	case kill.Shared:
		list = append(list, "Other commands ran there at the same time: the process may have been theirs.")
	case exit.Status == sandbox.Exited:
		list = append(list, "The command succeeded all the same: check whether its result is complete.")
	}
	limit := "its limit"
	if kill.Limit > 0 {
		limit = "its limit of " + memory(kill.Limit)
	}
	return append(list, fmt.Sprintf("Use less, e.g. fewer parallel jobs, or have the owner raise %s (--exec-memory, or memory under [exec]).", limit))
}

// memory renders a memory limit in the units of the setting.
func memory(n int64) string {
	if n >= 1<<30 {
		return strconv.FormatFloat(float64(n)/(1<<30), 'g', 3, 64) + " GB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'g', 4, 64) + " MB"
}

// shellHint reports a named shell whose state is not that which the command left.
func shellHint(name, fate string) []string {
	switch fate {
	case sandbox.ShellKept:
		return []string{fmt.Sprintf("The shell %q has the same state as before this command. The state after it was not saved: the command was killed, it replaced the shell (exec), or the box has no room for the state (df /dev/shm).", name)}
	case sandbox.ShellLost:
		return []string{fmt.Sprintf("The state of the shell %q is lost: its directory, variables and functions.", name)}
	}
	return nil
}

func runningHint(timeout time.Duration) string {
	if timeout == 0 {
		return "It has no time limit; stop ends it."
	}
	return fmt.Sprintf("It still runs, and is killed after %s in all (timeoutSeconds).", took(timeout))
}

func killedHint(ctx context.Context, box *sandbox.Box, why error) string {
	switch {
	case why != nil:
		return lostHint(why)
	case ctx.Err() != nil:
		return "The call was cancelled, so the command was killed, with every process that it had started."
	case box.Gone() != nil:
		return "Its container was stopped."
	}
	return "The command was stopped, with every process that it had started."
}

func lostHint(err error) string {
	f := FailureOf(err)
	return strings.TrimSpace(strings.TrimSuffix(f.Error, ".") + ". " + f.Hint)
}

// replacedHint reports that the caller's container was replaced by a new one, and why.
func replacedHint(why error) []string {
	if why == nil {
		return nil
	}
	return []string{fmt.Sprintf("This ran in a new container: %s. Files outside the workspace, named shells and background commands of the old one are gone.", FailureOf(why).Error)}
}

// workspaceHint says where the workspace of a box is.
func workspaceHint(box *sandbox.Box) string {
	return fmt.Sprintf("%s of the user's machine is %s in the container.", box.Describe().Workspace, box.Place.Dir)
}
