package policy

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// usageOption matches -x, --long and the text after them in a line of git's usage.
var usageOption = regexp.MustCompile(`^ {4}(?:-(\w)(?:, )?)?(?:--(?:\[no-\])?([a-z][a-z0-9-]*))?(\[| ?<| \(|=| [\[{a-z]|  |$)`)

// The table and the usage texts of git agree on the arity of every option that both
// have.
func TestArityOfGitOptionsMatchesUsage(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		missing(t, "git")
	}
	compared := 0
	names := strings.Fields(subcommands)
	for _, name := range []string{"remote", "stash", "worktree", "notes"} {
		verbs, _ := gitVerbs(name)
		for verb := range strings.FieldsSeq(verbs) {
			names = append(names, name+" "+verb)
		}
	}
	for _, name := range names {
		o, ok := gitOptions(name)
		if !ok || name == "rev-list" { // its usage is not generated
			continue
		}
		cmd := exec.Command("git", append(strings.Fields(name), "-h")...)
		cmd.Dir = t.TempDir()
		usage, _ := cmd.CombinedOutput() // exits with 129
		for line := range strings.Lines(string(usage)) {
			m := usageOption.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if m == nil || m[1]+m[2] == "" {
				continue
			}
			compared++
			takes := map[string]string{"": "flag", "  ": "flag", "[": "optional"}[m[3]]
			if takes == "" {
				takes = "value"
			}
			if got := o.takes(m[1], m[2]); m[1] != "" && got[0] != "" && got[0] != takes {
				t.Errorf("git %s: -%s takes %s, and the table has %s", name, m[1], takes, got[0])
			} else if m[2] != "" && got[1] != "" && got[1] != takes && got[1] != "either" && !(got[1] == "flag" && takes == "optional") { // --x=y is refused then
				t.Errorf("git %s: --%s takes %s, and the table has %s", name, m[2], takes, got[1])
			}
		}
	}
	if compared < 300 {
		t.Errorf("the usage texts of git have only %d options", compared)
	}
}

// takes returns the arity of a letter and of a long option in a grammar.
func (o options) takes(letter, long string) (kinds [2]string) {
	switch {
	case letter == "":
	case strings.Contains(o.values, letter):
		kinds[0] = "value"
	case strings.Contains(o.glued, letter):
		kinds[0] = "optional"
	case strings.Contains(o.flags, letter):
		kinds[0] = "flag"
	}
	for known := range strings.FieldsSeq(o.long) {
		if strings.TrimRight(known, "?=") != long || long == "" {
			continue
		}
		kind := map[byte]string{'=': "value", '?': "optional"}[known[len(known)-1]]
		if kind == "" {
			kind = "flag"
		}
		if kinds[1] != "" && kinds[1] != kind {
			kind = "either"
		}
		kinds[1] = kind
	}
	return kinds
}
