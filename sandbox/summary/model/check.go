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

// accept returns a reply as it may be shown, or the broken rule as an error. The rules
// reject a good reply rather than accept a wrong one, since there is always another
// summary.
func accept(reply string, d summary.Digest) (string, error) {
	reply = plain(reply)
	switch {
	case reply == "":
		return "", errors.New("the reply is empty")
	case len(reply) > maxReply:
		return "", fmt.Errorf("the reply must have at most %d bytes, got %d", maxReply, len(reply))
	}
	input := strings.Join([]string{d.Cmd, d.Summary, d.Kept}, "\n")
	if code, ok := wrongCode(reply, input, d.Exit); ok {
		return "", fmt.Errorf("the reply names exit code %d, but the command ended with %d", code, d.Exit.Code)
	}
	if claim := successClaim(reply); claim != "" && failed(d.Exit) {
		return "", fmt.Errorf("the reply claims success (%q), but the command failed", claim)
	}
	if place := unknownPlace(reply, input); place != "" {
		return "", fmt.Errorf("the reply names %.100q, which is not in the model's input", place)
	}
	return reply, nil
}

func failed(e summary.Exit) bool { return e.Code != 0 || e.Signal != "" || e.TimedOut }

// thinking matches the thoughts of a model that some servers leave before a reply.
var thinking = re(`(?s)^(?:\s*<think>.*?(?:</think>|$))+`)

// plain removes invisible text from a reply: thoughts, control characters, and characters
// that turn, join or hide text. It replaces invalid UTF-8.
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

// exitCodes matches the exit codes in a text.
var exitCodes = re("(?i)\\b(?:exit(?:ed|s|ing)?|(?:return|result|with) (?:code|status)|rc)\\b" +
	"(?:[\\s:=`*'\"(]|\\b(?:with|code|status|value|was|is|of|an?|the)\\b)*(-?\\d{1,10})\\b")

// wrongCode finds an exit code in a reply that differs from that of the command. The reply may
// repeat other codes of the input, such as those of processes that the command ran. But
// a failed command never has code 0, whatever its output says.
func wrongCode(reply, input string, e summary.Exit) (code int, wrong bool) {
	known := map[int]bool{}
	for _, code := range codesIn(input) {
		known[code] = code != 0
	}
	for _, code := range codesIn(reply) {
		if code != e.Code && !known[code] || code == 0 && failed(e) {
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

// places matches a file name with a line number in its usual forms: a.go:3, a.ts(3,5),
// "a.py", line 3.
var places = re(`([\w./\\@+-]*[A-Za-z_][\w./\\@+-]*)(?::|\(|['"` + "`" + `]?:?,? (?:at |on |in )?line )(\d+)`)

// unknownPlace finds the first place in a reply that is not in the input.
func unknownPlace(reply, input string) string {
	for _, m := range places().FindAllStringSubmatch(reply, -1) {
		file, line := strings.TrimPrefix(m[1], "./"), m[2]
		if looksLikeFile(file) && !names(input, file, line) {
			return file + ":" + line
		}
	}
	return ""
}

// looksLikeFile distinguishes file names from other words before a colon and a number,
// such as localhost:8080.
func looksLikeFile(word string) bool {
	if strings.HasPrefix(word, "//") {
		return false // the host of an address
	}
	return strings.ContainsAny(strings.Trim(word, "."), "./\\") || strings.HasSuffix(word, "file")
}

// names reports whether a text has a file name and a line number next to each other, in
// any form of tools, or, as linters print it, the file on a separate line and the line
// number with a column on a line after it.
func names(text, file, line string) bool {
	if !strings.Contains(text, file) {
		return false
	}
	beside := `(?:^|[^\w.-])` + regexp.QuoteMeta(file) + `\W{1,4}(?:(?:on |at |in )?line )?` + line + `(?:\D|$)`
	below := `(?m)^(?:\d+: )?\s+` + line + `:\d+\s`
	return regexp.MustCompile(beside + "|" + below).MatchString(text)
}
