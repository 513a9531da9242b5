package policy

// A Verdict says whether a command may run.
type Verdict struct {
	Denial error // a *Denial, or nil if the command may run

	// Approvable reports whether a user who has seen the command may approve it: the
	// only thing wrong with it is that Allow lacks an entry. It is false for what Deny
	// has, for what no list may have, and for what cannot be judged.
	Approvable bool
}

// Judge parses a command once and says whether it may run with the variables of env
// added to its environment, and if not, whether a user may approve it. With lists that
// Validate refuses it denies everything.
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

// missing denies a command that Allow lacks. It records the first such denial and lets
// the walk go on, so that the same walk finds whether anything else is wrong.
func (r *rules) missing(words []word) {
	if r.unlisted != nil {
		return
	}
	r.unlisted = r.globalOption(words)
	if r.unlisted == nil {
		r.unlisted = denied(r.accepts(words[0].text), "command not in whitelist: %s", r.named(words))
	}
}
