package summary

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A rule says how a tool begins to tell of a failure, and which of the lines
// behind the first belong to it.
type rule struct {
	hints []string // in lower case, four bytes and more; the first line has one of them
	start pattern  // the first line; its first group, if any, names the failure
	parts []part
	stop  pattern // a line that belongs to it no more; nil is an empty line
	reach int     // so many lines belong to it at most

	weight  weight
	inner   bool                        // within a failure that another rule holds, part of that
	holds   bool                        // what inner rules find belongs to this one
	retitle bool                        // the first line says more than the first line of a rule before
	back    func(*ring, string) []piece // finds parts that came before, by the failure's name
}

// A part is one kind of line within a failure.
type part struct {
	re   pattern
	role role
	max  int  // of this role in one failure; 0 is 1, -1 none: the line only belongs to it
	own  bool // only in the user's code, not in a library's
	last bool // the last such line instead of the first
	anew bool // of the places before it, only the first counts
}

type role int

// In the order in which they are worth room.
const (
	title role = iota
	message
	place
	detail
	again // another line that is the same but for numbers
)

type weight int

const (
	weak   weight = iota // a word of trouble somewhere
	step                 // what a failure led to: a package, a target, a build that failed
	logged               // an error that a log tells of
	found                // a failure as the tool tells it
)

// rules are tried in this order.
var rules = slices.Concat(
	goRules, pythonRules, rustRules, jsRules, javaRules, cRules, scriptRules, infraRules, shellRules,
)

// A pattern is compiled when it is first asked for: most outputs need few of them, and
// a program that nobody asks for a summary none.
type pattern = func() *regexp.Regexp

func re(expr string) pattern {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// numbered are hints of lists of failures: "1) ", "2) " and so on.
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

// begins reports whether a line is the first of a failure, and its name. lower
// is the line in lower case.
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

// foreign are marks of lines in a stack trace that are not the user's code.
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
