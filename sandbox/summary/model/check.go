package model

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/warmbox/warmbox/sandbox/summary"
)

// accept returns a reply as it may be shown, or the rule that it breaks. The
// rules rather refuse a good reply than take a wrong one: there is always
// another summary.
func accept(reply string, d summary.Digest) (string, error) {
	reply = plain(reply)
	switch {
	case reply == "":
		return "", errors.New("the reply is empty")
	case len(reply) > maxReply:
		return "", fmt.Errorf("the reply has %d bytes, and %d is the limit", len(reply), maxReply)
	}
	given := strings.Join([]string{d.Cmd, d.Summary, d.Kept}, "\n")
	if code, ok := wrongCode(reply, given, d.Exit); ok {
		return "", fmt.Errorf("the reply speaks of exit code %d, and the command ended with %d", code, d.Exit.Code)
	}
	if claim := successClaim(reply); claim != "" && failed(d.Exit) {
		return "", fmt.Errorf("the reply claims success (%q), and the command failed", claim)
	}
	if place := unknownPlace(reply, given); place != "" {
		return "", fmt.Errorf("the reply names %.100q, which stands nowhere in what the model was given", place)
	}
	return reply, nil
}

func failed(e summary.Exit) bool { return e.Code != 0 || e.Signal != "" || e.TimedOut }

// thinking is what some servers leave in a reply of what came before it.
var thinking = re(`(?s)^(?:\s*<think>.*?(?:</think>|$))+`)

// plain takes out of a reply what does not show: what is no UTF-8, control
// characters, and marks that turn, join or hide text.
func plain(reply string) string {
	reply = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\u2028' || r == '\u2029':
			return '\n'
		case unicode.In(r, unicode.Cc, unicode.Cf):
			return -1
		}
		return r
	}, strings.ToValidUTF8(reply, "\uFFFD"))
	return strings.TrimSpace(thinking().ReplaceAllString(reply, ""))
}

// exitCodes finds the exit codes that a text speaks of.
var exitCodes = re("(?i)\\b(?:exit(?:ed|s|ing)?|(?:return|result|with) (?:code|status)|rc)\\b" +
	"(?:[\\s:=`*'\"(]|\\b(?:with|code|status|value|was|is|of|an?|the)\\b)*(-?\\d{1,10})\\b")

// wrongCode finds an exit code in a reply that the command did not end with. A
// command may tell of others, of what it ran itself, and these may be repeated;
// but a failure never has code 0, whatever an output says.
func wrongCode(reply, given string, e summary.Exit) (code int, wrong bool) {
	told := map[int]bool{}
	for _, code := range codesIn(given) {
		told[code] = code != 0
	}
	for _, code := range codesIn(reply) {
		if code != e.Code && !told[code] || code == 0 && failed(e) {
			return code, true
		}
	}
	return 0, false
}

func codesIn(text string) (codes []int) {
	for _, m := range exitCodes().FindAllStringSubmatch(text, -1) {
		if code, err := strconv.Atoi(m[1]); err == nil {
			codes = append(codes, code)
		}
	}
	return codes
}

// places finds a file with the number of a line, in the ways that people and
// tools write it: a.go:3, a.ts(3,5), "a.py", line 3.
var places = re(`([\w./\\@+-]*[A-Za-z_][\w./\\@+-]*)(?::|\(|['"` + "`" + `]?:?,? (?:at |on |in )?line )(\d+)`)

// unknownPlace finds the first place in a reply that the model cannot know.
func unknownPlace(reply, given string) string {
	for _, m := range places().FindAllStringSubmatch(reply, -1) {
		file, line := strings.TrimPrefix(m[1], "./"), m[2]
		if looksLikeFile(file) && !names(given, file, line) {
			return file + ":" + line
		}
	}
	return ""
}

// looksLikeFile tells file names from other words that a colon and a number can
// follow, such as localhost:8080.
func looksLikeFile(word string) bool {
	if strings.HasPrefix(word, "//") {
		return false // the host of an address
	}
	return strings.ContainsAny(strings.Trim(word, "."), "./\\") || strings.HasSuffix(word, "file")
}

// names reports whether a text has a file and a line of it beside each other, by
// whatever a tool writes between them, or, as linters do, the file on a line of
// its own and the number with a column on one below.
func names(text, file, line string) bool {
	if !strings.Contains(text, file) {
		return false
	}
	beside := `(?:^|[^\w.-])` + regexp.QuoteMeta(file) + `\W{1,4}(?:(?:on |at |in )?line )?` + line + `(?:\D|$)`
	below := `(?m)^(?:\d+: )?\s+` + line + `:\d+\s`
	return regexp.MustCompile(beside + "|" + below).MatchString(text)
}
