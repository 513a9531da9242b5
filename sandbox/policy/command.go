package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/warmbox/warmbox/sandbox/excerpt"
)

// Commands decides which command lines may run. The zero value allows everything.
//
// A command line is allowed only if it parses and every simple command in it
// begins, word by word, with an entry of Allow. The check refuses what it does not
// know and what exceeds its limits. The caller must run the checked string, byte
// for byte.
//
// The lists state intent and prevent accidents. An allowed program that runs other
// programs by design, such as make or go test, runs what the workspace says, and
// only the box confines it.
type Commands struct {
	// Allow lists the first words of allowed commands: "ls", "go test". The entry
	// "default" stands for the entries of DefaultCommands. An empty list allows
	// every program that Deny does not list.
	Allow []string

	// Deny lists the first words of commands that are denied although Allow has
	// them: "npm publish" if "npm" is allowed.
	Deny []string

	// Release lists variables that may be set to any value although they are not
	// known to be harmless, such as GOFLAGS.
	Release []string

	// Examples lists, for an entry of Allow or Deny, commands that must be allowed
	// or denied. Validate checks them.
	Examples map[string][]string
}

// DefaultCommands returns the entries that "default" stands for.
func DefaultCommands() []string {
	return []string{
		"go test", "go build", "go run", "go vet", "go mod tidy",
		"npm test", "npm run build", "npm install", "node",
		"python", "python3", "python -m pytest", "pip install",
		"make", "cargo build", "cargo test", "cargo run",
		"ls", "cat", "grep", "find", "head", "tail", "wc", "cut", "tr", "sort", "uniq", "diff", "basename", "dirname",
		"pwd", "cd", "echo", "printf", "true", "false", "test", "[", "sleep", "time", "date", "which", "nproc",
		"mkdir", "tee", // write to any path, as make and python do
		"git status", "git diff", "git log",
	}
}

// A Denial says why a command may not run, and what would be accepted instead.
type Denial struct {
	Reason string
	Accept string
}

func (d *Denial) Error() string { return d.Reason }

func denied(accept, format string, args ...any) error {
	for i, a := range args {
		if text, ok := a.(string); ok {
			args[i] = shorten(text)
		}
	}
	return &Denial{Reason: fmt.Sprintf(format, args...), Accept: accept}
}

// shorten cuts a long word of a command, so that it does not fill a reply.
func shorten(text string) string { return excerpt.Clip(text, 100) }

// Unlimited reports whether every command may run.
func (c Commands) Unlimited() bool { return len(c.Allow)+len(c.Deny) == 0 }

// Check returns nil if cmd may run with the variables of env added to its
// environment, or else a *Denial. If the lists are not valid, it denies every
// command.
func (c Commands) Check(cmd string, env map[string]string) error {
	return c.Judge(cmd, env).Denial
}

// check returns why a command is denied for another reason than a missing entry of
// Allow, which it records in r.
func (c Commands) check(r *rules, cmd string, env map[string]string) error {
	if err := c.validate(); err != nil {
		return denied("Correct the lists.", "the command lists are not valid: %v", err)
	}
	if err := c.CheckEnv(env); err != nil {
		return err
	}
	if err := checkText(cmd); err != nil {
		return err
	}
	// bash and POSIX shells read some strings differently. Both readings must parse,
	// and both must be allowed.
	for _, lang := range []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX} {
		k := &checker{rules: r, src: cmd, lang: lang, budget: &budget{}}
		for name, value := range env {
			if err := k.set(setting{name, value, true, true}); err != nil {
				return err
			}
		}
		if err := k.check(); err != nil {
			return err
		}
		if err := k.forMake(); err != nil {
			return err
		}
	}
	return nil
}

// CheckEnv returns nil if commands may run with these variables added to their
// environment, or else a *Denial.
func (c Commands) CheckEnv(env map[string]string) error {
	if c.Unlimited() {
		return nil
	}
	r := c.rules()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if err := r.variable(setting{name, env[name], true, true}); err != nil {
			return err
		}
		if callsMake(env[name]) && !slices.Contains(r.release, name) {
			return denied("Pass the value in a file.", "the value of the variable %s must not contain $(…) or ${…}: make would run it", name)
		}
	}
	return nil
}

// Validate checks the entries of the lists and the examples. Call it once, when the
// configuration is read.
func (c Commands) Validate() error {
	if err := c.validate(); err != nil {
		return err
	}
	for _, entry := range slices.Sorted(maps.Keys(c.Examples)) {
		if err := c.checkExamples(entry); err != nil {
			return fmt.Errorf("the examples of %q: %w", entry, err)
		}
	}
	return nil
}

func (c Commands) checkExamples(entry string) error {
	wanted := slices.Contains(expand(c.Allow), entry)
	if !wanted && !slices.Contains(c.Deny, entry) {
		return fmt.Errorf("neither allow nor deny has this entry")
	}
	for _, cmd := range c.Examples[entry] {
		switch err := c.Check(cmd, nil); {
		case wanted && err != nil:
			return fmt.Errorf("%q is denied: %w", cmd, err)
		case !wanted && err == nil:
			return fmt.Errorf("%q is allowed", cmd)
		}
	}
	return nil
}

func (c Commands) validate() error {
	for _, entry := range slices.Concat(expand(c.Allow), c.Deny) {
		if err := validEntry(entry); err != nil {
			return fmt.Errorf("the entry %q %w", entry, err)
		}
	}
	for _, name := range c.Release {
		if !syntax.ValidName(name) {
			return fmt.Errorf("%q is not a valid variable name", name)
		}
	}
	return nil
}

func validEntry(entry string) error {
	words := strings.Fields(entry)
	if len(words) == 0 {
		return fmt.Errorf("has no words")
	}
	first := words[0]
	switch {
	case neverListed(first):
		return fmt.Errorf("is not possible in a list: %s can run any code, or change what other commands mean", first)
	case first != "time" && syntax.IsKeyword(first), strings.ContainsRune("-+", rune(first[0])), strings.Contains(first, "="):
		return fmt.Errorf("must begin with the name of a program")
	}
	for _, word := range words {
		if !isPlain(word) {
			return fmt.Errorf("has the word %q, which a shell would not read literally; use only letters, digits and %s", word, plainMarks)
		}
	}
	return nil
}

// neverListed reports whether a name must not be in any list: it is a shell builtin
// that runs text, loads code, or changes the meaning of a name or variable.
func neverListed(name string) bool {
	switch name {
	case "eval", "exec", "source", ".", "command", "builtin", "alias", "trap", "hash", "enable", "set", "shopt", "export", "read", "unset",
		"declare", "typeset", "local", "readonly", "nameref", "let", "coproc", "getopts", "mapfile", "readarray",
		"bind", "compgen", "complete", "compopt", "fc", "history", "jobs", "wait":
		return true
	}
	return false
}

// plainMarks are the characters, besides letters and digits, that every shell reads
// literally anywhere in a word.
const plainMarks = "_./:@%+,=-"

func isPlain(word string) bool {
	other := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune(plainMarks, r)
	}
	return word == "[" || word != "" && !strings.ContainsFunc(word, other)
}

// rules are Commands, prepared for one check.
type rules struct {
	allow   [][]string // the words of each entry
	deny    []denyRule
	release []string

	unlisted error // the first denial of a command that Allow lacks
}

func (c Commands) rules() *rules {
	return &rules{allow: split(expand(c.Allow)), deny: denyRules(c.Deny), release: c.Release}
}

func split(entries []string) (list [][]string) {
	for _, entry := range entries {
		list = append(list, strings.Fields(entry))
	}
	return list
}

func expand(entries []string) (list []string) {
	for _, entry := range entries {
		if strings.TrimSpace(entry) == "default" {
			list = append(list, DefaultCommands()...)
		} else {
			list = append(list, entry)
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(entry string) bool {
		twice := seen[entry]
		seen[entry] = true
		return twice
	})
}

// program checks one program with its arguments against the lists only.
func (r *rules) program(words []word) error {
	first := words[0]
	if !first.plain {
		return denied("Write the name as it is in the list, without quotes, escapes, paths or expansions. "+r.accepts(""),
			"the name of a command must be plain text, got %s", first.raw)
	}
	if neverListed(first.text) {
		return denied(r.accepts(""), "command not in whitelist: %s; it can run any code and is never allowed", first.text)
	}
	if len(r.allow) > 0 && !r.lists(words) {
		r.missing(words)
	}
	return r.notDenied(words)
}

// lists reports whether an entry allows a command. The entry test also allows [, and
// true also allows :. Harmless options before the subcommand of git and go are
// skipped.
func (r *rules) lists(words []word) bool {
	direct := func(words []word) bool {
		return slices.ContainsFunc(r.allow, func(entry []string) bool { return begins(words, entry) })
	}
	if direct(words) {
		return true
	}
	switch words[0].text {
	case "[":
		return slices.ContainsFunc(r.allow, func(entry []string) bool { return slices.Equal(entry, []string{"test"}) })
	case ":":
		return slices.ContainsFunc(r.allow, func(entry []string) bool { return slices.Equal(entry, []string{"true"}) })
	case "git", "go":
		rest, err := withoutGlobals(words)
		return err == nil && len(rest) > 0 && direct(slices.Concat(words[:1], rest))
	}
	return false
}

// globalOption returns an error about the options before a subcommand of git or go,
// if these are why no entry allows the command.
func (r *rules) globalOption(words []word) error {
	known := slices.ContainsFunc(r.allow, func(entry []string) bool { return entry[0] == words[0].text })
	if !known || !knowsSubcommands(words[0].text) || len(words) < 2 || !words[1].static {
		return nil
	}
	_, err := withoutGlobals(words)
	return err
}

// withoutGlobals returns the words after the options that precede a subcommand.
func withoutGlobals(words []word) (rest []word, err error) {
	rest = words[1:]
	if words[0].text == "git" {
		_, rest, err = gitGlobal(words)
	} else if len(rest) > 0 && dashes(rest[0]) {
		_, rest, err = goChdir(rest)
	}
	if err != nil {
		return nil, err
	}
	return rest, plainTo(words, rest)
}

// begins reports whether words begin with the words of an entry, written as plain
// text.
func begins(words []word, entry []string) bool {
	if len(words) < len(entry) {
		return false
	}
	for i, w := range entry {
		if !words[i].plain || words[i].text != w {
			return false
		}
	}
	return true
}

// named returns the name of an unlisted command, with as many words as the longest
// entry of the same program has. So "go get" is not reported as "go".
func (r *rules) named(words []word) string {
	most := 1
	for _, entry := range r.allow {
		if entry[0] == words[0].text {
			most = max(most, len(entry))
		}
	}
	var name []string
	for _, w := range words[:min(most, len(words))] {
		name = append(name, w.raw)
	}
	return strings.Join(name, " ")
}

// accepts lists the allowed commands of a program, or all entries if it has none.
func (r *rules) accepts(program string) string {
	var same, all []string
	for _, entry := range r.allow {
		text := strings.Join(entry, " ")
		all = append(all, text)
		if entry[0] == program {
			same = append(same, text)
		}
	}
	switch {
	case len(same) > 0:
		return "Allowed of " + program + ": " + strings.Join(same, ", ") + "."
	case len(all) > 0:
		return "Allowed: " + strings.Join(all, ", ") + "."
	}
	return ""
}
