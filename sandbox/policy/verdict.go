package policy

// A Verdict says whether a command may run.
type Verdict struct {
	Denial error // a *Denial, or nil if the command may run

	// Approvable reports whether a user who has seen the command may approve it: it is
	// denied only because Allow has no entry for it. A command is not approvable if
	// Deny has it, if it uses a name that no list may have, or if it cannot be checked.
	Approvable bool
}

// Judge parses a command once and decides whether it may run with the variables of env
// added to its environment, and if not, whether a user may approve it. If the lists are
// not valid, it denies every command.
func (c Commands) Judge(cmd string, env map[string]string) Verdict {
	if c.Unlimited() {
		return Verdict{}
	}
	r := c.rules()
	err := c.check(r, cmd, env)
	if r.unlisted != nil {
		return Verdict{Denial: r.unlisted, Approvable: err == nil}
	}
	return Verdict{Denial: err}
}

// missing records the denial of the first command that Allow has no entry for. The walk
// continues, so that it also finds other reasons for a denial.
func (r *rules) missing(words []word) {
	if r.unlisted != nil {
		return
	}
	r.unlisted = r.globalOption(words)
	if r.unlisted == nil {
		r.unlisted = denied(r.accepts(words[0].text), "command not in whitelist: %s", r.named(words))
	}
}
