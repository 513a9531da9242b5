package sandbox

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
)

// An Approval is a user's word for a command that the list does not have. It
// opens the list and no other rule: see policy.Commands.CheckAsked.
type Approval string

// For how long a user allows a command.
const (
	ApprovedOnce       Approval = "once"
	ApprovedForSession Approval = "session" // until its owner is released
)

// MayAsk reports whether a user's word would let a command run that the list
// does not have. What the box or another rule forbids nobody is asked about.
func (b *Box) MayAsk(c Command) bool {
	return c.Shell == "" && b.commands.Check(c.Cmd, c.Env) != nil && b.commands.CheckAsked(c.Cmd, c.Env) == nil
}

// onWord reports whether a command that the list does not have runs on the word
// of a user, now or earlier in the session. The command then says so.
func (b *Box) onWord(c *Command) bool {
	key := allowanceKey(*c)
	if c.Approval == "" && b.allowed.has(b.owner, key) {
		c.Approval = ApprovedForSession
	}
	if c.Approval == "" || !b.MayAsk(*c) {
		c.Approval = ""
		return false
	}
	if c.Approval == ApprovedForSession {
		b.allowed.add(b.owner, key)
	}
	return true
}

// allowances are the commands that owners may run until they are released. The
// zero value is empty, and nil stays so.
type allowances struct {
	mu   sync.Mutex
	keys map[Owner][]string // by owner, the oldest first
}

// maxAllowed is how many commands of one owner are remembered. A user has said
// yes to each of them; beyond it the oldest is asked about anew.
const maxAllowed = 256

// allowanceKey is the same for commands that do the same. What one reads is no
// part of its text, so that one with input has none: "".
func allowanceKey(c Command) string {
	if c.hasInput() {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", c.Cmd, c.Dir, c.Env))
	return string(sum[:])
}

func (a *allowances) has(owner Owner, key string) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.keys[owner], key)
}

func (a *allowances) add(owner Owner, key string) {
	if a == nil || key == "" || a.has(owner, key) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keys == nil {
		a.keys = map[Owner][]string{}
	}
	keys := append(a.keys[owner], key)
	a.keys[owner] = keys[max(0, len(keys)-maxAllowed):]
}

func (a *allowances) forget(owner Owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.keys, owner)
}
