package sandbox

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"
)

// An Approval is a user's consent to run a command that the allowlist lacks. It replaces
// the missing entry and no other rule: see policy.Verdict.
type Approval string

// How long an approval is valid.
const (
	ApprovedOnce       Approval = "once"
	ApprovedForSession Approval = "session" // until the owner is released
)

// An ApproveFunc asks a user to approve a command that is denied only because the
// allowlist lacks it. It may block until ctx ends. An error means that the command is
// not approved; Exec returns it as it is.
type ApproveFunc func(ctx context.Context, denial error) (Approval, error)

// leastWait is how much of its wait limit a command has left, however long its user took
// to approve it: most commands end within it.
const leastWait = 2 * time.Second

// authorize admits a command: the lists allow it, the user approved it for the session,
// or the user approves it now. Each command passes here once, and nothing else asks the user.
// An approval is recorded in the command.
func (b *Box) authorize(ctx context.Context, c *Command) error {
	approve := c.Approve
	c.Approve = nil // the run keeps the command
	denied, approvable := b.judge(*c)
	if denied == nil {
		return nil
	}
	key := approvalKey(*c)
	if approvable && c.Approval == "" && b.allowed.has(b.owner, key) {
		c.Approval = ApprovedForSession
	}
	if !approvable || c.Approval == "" {
		b.audit.asked(b, *c, nil, denied)
		if !approvable || approve == nil {
			return denied
		}
		if err := c.approve(ctx, approve, denied); err != nil {
			return err
		}
	}
	if c.Approval == ApprovedForSession {
		b.allowed.add(b.owner, key)
	}
	return nil
}

// judge checks a command against the lists. It returns why the command is denied, or nil,
// and whether a user may approve it nevertheless.
func (b *Box) judge(c Command) (denied error, approvable bool) {
	if c.Shell != "" && !b.commands.Unlimited() {
		return Errorf(ExecValidation, "Leave shell out; set variables with env and the directory with workdir.",
			"named shells are turned off, since commands are checked against a list: a function, an alias or a PATH that an earlier command left in the shell could make an allowed command run another one"), false
	}
	v := b.commands.Judge(c.Cmd, c.Env)
	return denial(v.Denial), v.Approvable
}

// approve asks the user. The time that the user takes counts against the wait limit.
func (c *Command) approve(ctx context.Context, ask ApproveFunc, denied error) error {
	began := time.Now()
	given, err := ask(ctx, denied)
	if err != nil {
		return err
	}
	if given == "" {
		return denied
	}
	c.Approval = given
	c.WaitLimit = max(c.WaitLimit-time.Since(began), min(c.WaitLimit, leastWait))
	return nil
}

// approvals are the commands that users approved for the session of an owner. The zero
// value is empty; a nil one stays empty.
type approvals struct {
	mu   sync.Mutex
	keys map[Owner][]string // by owner, the oldest first
}

// maxApprovals is how many approvals of one owner are kept. Beyond it the oldest is
// dropped, and the user is asked again.
const maxApprovals = 256

// approvalKey identifies what a command does. It is "" for a command with input: what
// that reads is not part of its text, so its approval cannot be reused.
func approvalKey(c Command) string {
	if c.hasInput() {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", c.Cmd, c.Dir, c.Env))
	return string(sum[:])
}

func (a *approvals) has(owner Owner, key string) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.keys[owner], key)
}

func (a *approvals) add(owner Owner, key string) {
	if a == nil || key == "" || a.has(owner, key) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keys == nil {
		a.keys = map[Owner][]string{}
	}
	keys := append(a.keys[owner], key)
	a.keys[owner] = keys[max(0, len(keys)-maxApprovals):]
}

// forget drops the approvals of an owner.
func (a *approvals) forget(owner Owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.keys, owner)
}
