package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Commands says which command lines may run. The zero value lets everything run.
//
// A command line runs only if it parses, and every simple command anywhere in it
// begins, word by word, with an entry of Allow. What the check does not know it
// refuses; over any of its limits it refuses too. The string that was checked
// must be the string that is run, byte for byte.
//
// That states what is meant to run and stops accidents. Where an allowed program
// runs other programs by its nature, as make and go test do, it runs what the
// workspace says, and only the box confines that.
type Commands struct {
	// Allow lists the beginnings of commands: "ls", "go test". The entry
	// "default" stands for the entries of DefaultCommands. An empty list allows
	// every program that Deny does not name.
	Allow []string

	// Deny lists beginnings that do not run although Allow has them: with "npm"
	// allowed, "npm publish".
	Deny []string

	// Release lists variables that may be set to any value although they are not
	// known to be harmless, such as GOFLAGS.
	Release []string

	// Examples has, by an entry of Allow or Deny, commands that must be allowed
	// or denied. They are checked by Validate.
	Examples map[string][]string
}

// DefaultCommands returns what the entry "default" stands for.
func DefaultCommands() []string {
	return []string{
		"go test", "go build", "go run", "go vet", "go mod tidy",
		"npm test", "npm run build", "npm install", "node",
		"python", "python3", "python -m pytest", "pip install",
		"make", "cargo build", "cargo test", "cargo run",
		"ls", "cat", "grep", "find", "head", "tail", "wc", "cut", "tr", "sort", "uniq", "diff", "basename", "dirname",
		"pwd", "cd", "echo", "printf", "true", "false", "test", "[", "sleep", "time", "date", "which", "nproc",
		"mkdir", "tee", // write what they are told to, as make and python do
		"git status", "git diff", "git log",
	}
}

// A Denial is why a command may not run, and what would be accepted instead.
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

// shorten keeps a long word of a command from filling a reply.
func shorten(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Unlimited reports whether every command may run.
func (c Commands) Unlimited() bool { return len(c.Allow)+len(c.Deny) == 0 }

// Check returns nil if cmd may run with the variables of env added to its
// environment, and else a *Denial. With lists that Validate refuses nothing may.
func (c Commands) Check(cmd string, env map[string]string) error {
	if c.Unlimited() {
		return nil
	}
	return c.check(cmd, env)
}

// CheckAsked returns nil if cmd may run on the word of a user who has seen it,
// and else a *Denial. That word stands in for an entry of Allow and for nothing
// else: what Deny has, what no list may have, and what is refused because it
// cannot be judged, nobody is to be asked about.
func (c Commands) CheckAsked(cmd string, env map[string]string) error {
	if err := c.CheckEnv(env); err != nil {
		return err
	}
	c.Allow = nil
	return c.check(cmd, env)
}

func (c Commands) check(cmd string, env map[string]string) error {
	if err := c.validate(); err != nil {
		return denied("Correct the list.", "the list of commands is wrong: %v", err)
	}
	if err := c.CheckEnv(env); err != nil {
		return err
	}
	r := c.rules()
	if err := gate(cmd); err != nil {
		return err
	}
	// A shell of one kind reads some strings otherwise than one of the other.
	// Both readings must parse, and both must be allowed.
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
// environment, and else a *Denial.
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
			return denied("Give it in a file.", "the variable %s may not have a value with $(…) or ${…} in it: make would run that", name)
		}
	}
	return nil
}

// Validate reports whether the lists make sense and the examples hold. A
// configuration is checked with it once, when it is read.
func (c Commands) Validate() error {
	if err := c.validate(); err != nil {
		return err
	}
	for _, entry := range slices.Sorted(maps.Keys(c.Examples)) {
		if err := c.holds(entry); err != nil {
			return fmt.Errorf("the examples of %q: %w", entry, err)
		}
	}
	return nil
}

func (c Commands) holds(entry string) error {
	wanted := slices.Contains(expand(c.Allow), entry)
	if !wanted && !slices.Contains(c.Deny, entry) {
		return fmt.Errorf("no list has that entry")
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
			return fmt.Errorf("%q is not the name of a variable", name)
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
	case never(first):
		return fmt.Errorf("cannot be listed: %s runs or changes what no list can judge", first)
	case first != "time" && syntax.IsKeyword(first), strings.ContainsRune("-+", rune(first[0])), strings.Contains(first, "="):
		return fmt.Errorf("does not begin with the name of a program")
	}
	for _, word := range words {
		if !isPlain(word) {
			return fmt.Errorf("has the word %q, which a shell would not take as it stands; use letters, digits and %s", word, plainMarks)
		}
	}
	return nil
}

// never tells the names that no list may have: builtins of shells that run
// text, load code, or change what a name or a variable means.
func never(name string) bool {
	switch name {
	case "eval", "exec", "source", ".", "command", "builtin", "alias", "trap", "hash", "enable", "set", "shopt", "export", "read", "unset",
		"declare", "typeset", "local", "readonly", "nameref", "let", "coproc", "getopts", "mapfile", "readarray",
		"bind", "compgen", "complete", "compopt", "fc", "history", "jobs", "wait":
		return true
	}
	return false
}

// plainMarks are the characters beside letters and digits that mean themselves
// to every shell, wherever they stand in a word.
const plainMarks = "_./:@%+,=-"

func isPlain(word string) bool {
	other := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune(plainMarks, r)
	}
	return word == "[" || word != "" && !strings.ContainsFunc(word, other)
}

// rules are Commands, made ready for one check.
type rules struct {
	allow   [][]string // entries by their words
	deny    []ban
	release []string
}

func (c Commands) rules() *rules {
	return &rules{split(expand(c.Allow)), bans(c.Deny), c.Release}
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

// program judges one program with its arguments by the lists alone.
func (r *rules) program(words []word) error {
	first := words[0]
	if !first.plain {
		return denied("Write the name as it is in the list, without quotes, escapes, paths or expansions. "+r.accepts(""),
			"the name of a command must be plain text: %s", first.raw)
	}
	if never(first.text) {
		return denied(r.accepts(""), "command not in whitelist: %s; it can reach anything and is never allowed", first.text)
	}
	if len(r.allow) > 0 && !r.lists(words) {
		if err := r.globalOption(words); err != nil {
			return err
		}
		return denied(r.accepts(first.text), "command not in whitelist: %s", r.named(words))
	}
	return r.notDenied(words)
}

// lists reports whether an entry allows a command. test stands for [ too, and true
// for :. Options before the subcommand of git and go that are known to be harmless
// do not hide it.
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

// globalOption says that an option is the trouble where a listed subcommand may
// stand behind it.
func (r *rules) globalOption(words []word) error {
	known := slices.ContainsFunc(r.allow, func(entry []string) bool { return entry[0] == words[0].text })
	if !known || !knowsSubcommands(words[0].text) || len(words) < 2 || !words[1].static {
		return nil
	}
	_, err := withoutGlobals(words)
	return err
}

// withoutGlobals returns what stands behind the options before a subcommand.
func withoutGlobals(words []word) (rest []word, err error) {
	rest = words[1:]
	if words[0].text == "git" {
		_, rest, err = gitGlobal(words)
	} else if len(rest) > 0 && dashes(rest[0]) {
		rest, err = goChdir(rest)
	}
	if err != nil {
		return nil, err
	}
	return rest, plainTo(words, rest)
}

// begins reports whether words begin with those of an entry, plainly written.
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

// named names a program that is not listed with as many words as the longest
// entry of the same program has, so that "go get" is not reported as "go".
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

// accepts says what of a program is allowed, or else what programs are.
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
