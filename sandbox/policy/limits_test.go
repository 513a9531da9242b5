package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mvdan.cc/sh/v3/syntax"
)

var everything = Commands{
	Allow: []string{"default", "x", "env", "time", "timeout", "sed", "awk", "xargs", "tar", "sort", "rg"},
	Deny:  []string{"ls -z", "git diff --stat x"},
}

// worst returns commands of about the maximum length that are expensive to parse or
// to check.
func worst() (list []string) {
	units := []string{
		"(", "$(", "`", "((", "$((", "${a:-", `"$(`, `"${x:-`, "{ ", "if ", "while ", "case x in a) ", "for a in b;do ", "! ", "$(ls <<a ", "`ls \\`", "$(`",
		"ls|", "ls;", "ls&&", "''", `""`, "$a", "[", "{a,", `\`, "\\\n", " \\\n", "''\\\n", "\n", "#", "x ", "* ", "~ ", "é ", "'", `"`,
		"<<a ", "<<a\n", "<<'a'\n", "ls <<a\na\n", "ls <<'a'\nb\na\n", "ls >/tmp/x ", "2>&1 ", "a=1 ", "a=$(ls) ", "`ls` ", "$(ls)",
		"-exec ls ; ", "{} ", "env ", "env a=1 ", "time ", "timeout 1 ", "-e p ", "p;", "s/a/b/;", "[[:alpha:]]", "--help ", "--no-print-directory ", "-v ", "print ", "a@b ",
	}
	frames := [][2]string{
		{"", ""}, {"ls ", ""}, {`ls "`, `"`}, {"ls;", ""}, {"find . ", ""}, {"awk '", "'"}, {"sed -e '", "'"}, {"sed ", ""}, {"git diff ", ""}, {"make ", ""},
		{"go test ", ""}, {"npm test ", ""}, {"python -m pytest ", ""}, {"tar c ", ""}, {"sort ", ""}, {"rg ", ""}, {"env ", ""}, {"xargs ", ""},
	}
	for _, unit := range units {
		for _, f := range frames {
			n := (maxBytes - len(f[0]) - len(f[1])) / len(unit)
			list = append(list, f[0]+strings.Repeat(unit, n)+f[1])
		}
	}
	return list
}

// BenchmarkWorst reports the slowest of the worst commands, by the fastest run of each.
func BenchmarkWorst(b *testing.B) {
	list := worst()
	fastest := make([]time.Duration, len(list))
	for b.Loop() {
		for i, cmd := range list {
			start := time.Now()
			everything.Check(cmd, nil)
			if took := time.Since(start); fastest[i] == 0 || took < fastest[i] {
				fastest[i] = took
			}
		}
	}
	slowest := slices.Max(fastest)
	b.ReportMetric(float64(slowest)/1e6, "ms/worst")
	b.Logf("%s", brief(list[slices.Index(fastest, slowest)]))
}

func BenchmarkCheck(b *testing.B) {
	for b.Loop() {
		everything.Check("go test ./... 2>&1 | tail -20 && git diff --stat", nil)
	}
}

// The parser gets no more text once it is nested too deep, which bounds its stack and
// its time.
func TestParserStopsAtDepthLimit(t *testing.T) {
	for _, unit := range []string{"(", "$(", "((", "{ ", "if ", "while ", `"${x:-`, "${x:-", `"$(`, "case x in a) ", "for a in b;do "} {
		r := &shallowReader{strings.Repeat(unit, maxBytes/len(unit))}
		_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(r, "")
		if err == nil || maxBytes-len(r.text) > maxBytes/4 {
			t.Errorf("%q: the parser read all but %d bytes: %v", unit, len(r.text), err)
		}
	}
}

func TestCheckRefusesBeyondLimits(t *testing.T) {
	list := Commands{Allow: []string{"ls", "find"}}
	grouped := func(n int) string { return strings.Repeat("{ ", n) + "ls" + strings.Repeat("; }", n) }
	substituted := func(n int) string { return strings.Repeat("ls $(", n) + "ls" + strings.Repeat(")", n) }
	for _, c := range []struct {
		cmd     string
		allowed bool
	}{
		{grouped(maxDepth), true},
		{grouped(maxDepth + 1), false},
		{"ls" + strings.Repeat(";ls", maxCalls-1), true},
		{"ls" + strings.Repeat(";ls", maxCalls), false},
		{"ls" + strings.Repeat("|ls", maxCalls-1), true},
		{substituted(maxDepth), true},
		{substituted(maxDepth + 1), false},
		{strings.Repeat("find . -exec ", maxDepth) + "ls" + strings.Repeat(` \;`, maxDepth), false},
		{"ls " + strings.Repeat("a", maxBytes-3), true},
		{"ls " + strings.Repeat("a", maxBytes-2), false},
	} {
		if err := list.Check(c.cmd, nil); (err == nil) != c.allowed {
			t.Errorf("%s: %v", brief(c.cmd), err)
		}
	}
}

func brief(s string) string { return fmt.Sprintf("%.40q (%d bytes)", s, len(s)) }
