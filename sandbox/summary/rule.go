package summary

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A rule describes how a tool reports a failure: its first line, and which of the
// following lines belong to it.
type rule struct {
	hints []string // in lower case, at least four bytes; the first line contains one of them
	start pattern  // matches the first line; its first group, if any, is the failure's name
	parts []part
	stop  pattern // matches the first line after the failure; nil: an empty line
	reach int     // maximum number of lines that belong to the failure

	weight  weight
	mild    bool                        // only the words of the title say how severe it is
	inner   bool                        // within a failure of a rule with holds, a part of that failure
	holds   bool                        // failures that inner rules find belong to this one
	exact   bool                        // a number decides, so lines of its template may be none
	each    bool                        // every first line is another failure, unless all its parts are known
	entry   bool                        // the first line alone may also be an entry of a list
	retitle bool                        // the first line replaces the title of an earlier rule
	back    func(*ring, string) []piece // finds earlier parts by the failure's name
}

// A part is one kind of line within a failure.
type part struct {
	re   pattern
	role role
	max  int  // maximum number per failure; 0: 1; -1: none, but the line belongs to the failure
	own  bool // only in the user's code, not in a library
	last bool // the last such line instead of the first
	anew bool // of the places before it, only the first counts
}

type role int

// Roles in order of value.
const (
	title role = iota
	message
	place
	detail
	aside // a line below the title that no rule knows
	again // another line that differs only in numbers
)

type weight int

const (
	weak   weight = iota // a word of trouble somewhere
	step                 // a consequence of a failure: a failed package, target or build
	logged               // an error in a log
	found                // a failure that a tool reports
)

// rules are tried in this order.
var rules = slices.Concat(
	goRules, pythonRules, rustRules, jsRules, javaRules, cRules, scriptRules, infraRules, shellRules,
)

// A pattern is compiled at its first use: most outputs need few of them, and most
// programs write no summary.
type pattern = func() *regexp.Regexp

func re(expr string) pattern {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// numbered are hints for numbered failures: "1) ", "2) " and so on.
var numbered = func() (hints []string) {
	for n := 1; n <= 60; n++ {
		hint := strconv.Itoa(n) + ") "
		if n < 10 {
			hint = " " + hint
		}
		hints = append(hints, hint)
	}
	return hints
}()

// begins reports whether a line begins a failure, and returns its name. lower is the
// line in lower case.
func (r *rule) begins(text, lower string) (name string, ok bool) {
	if !hasAny(lower, r.hints) {
		return "", false
	}
	m := r.start().FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	for _, group := range m[1:] {
		name += group
	}
	return strings.TrimSpace(name), true
}

func (r *rule) ends(text string) bool {
	if r.stop == nil {
		return strings.TrimSpace(text) == ""
	}
	return r.stop().MatchString(text)
}

// foreign are marks of stack trace lines outside of the user's code.
var foreign = []string{
	"node_modules/", "node:", "(internal/", "/go/src/", "/usr/local/go/", "/pkg/mod/", "/vendor/", "/golang/",
	"site-packages", "dist-packages", "/lib/python", "<frozen", "/rustc/", ".cargo/registry", "at java.", "at javax.", "java.base/",
	"at sun.", "at jdk.", "org.junit", "junit.framework", "org.springframework", "at org.apache.", "org.gradle",
	"org.assertj", "org.hamcrest", "org.mockito", "at kotlin.", "at scala.", "/gems/", "/usr/lib/", "/lib/x86_64", "libasan", "libc.so", "libstdc++",
	"../sysdeps", "at System.", "at Microsoft.", "at Xunit", "at NUnit", "/usr/share/", "<internal:", "vg_replace",
	"libsanitizer", "_testmain.go", "at Function.", "asan_",
}

func isOwn(text string) bool {
	return !slices.ContainsFunc(foreign, func(f string) bool { return strings.Contains(text, f) })
}
