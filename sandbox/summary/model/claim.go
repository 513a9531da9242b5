package model

import (
	"regexp"
	"strings"
	"sync"
)

// A pattern is compiled at its first use: most programs call no model, and to compile
// these patterns takes a millisecond.
type pattern = func() *regexp.Regexp

func re(expr string) pattern {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// Parts of patterns for claims about the whole run. The text to match is in lower case,
// without quotes and stars.
const (
	subject = `(?:command|build|run|job|script|task|process|operation|execution|pipeline|suite|tests|checks|compilation|deployment|installation|it)`
	verb    = `(?:pass(?:ed|es|ing)?|succeed(?:s|ed|ing)?|successful(?:ly)?|success|worked|works|ok|okay|fine|green|clean(?:ly)?|normally)`
	trouble = `(?:errors?|failures?|problems?|issues?|faults?|fail(?:ed|ing)?)`
)

// whole matches claims that are always false of a failed command.
var whole = re(`\b(?:` + strings.Join([]string{
	`(?:all|every|everything|each)\b(?: [^ ]+){0,7}? ` + verb,
	subject + ` (?:(?:has|have|had|is|are|was|were|all|now|run|ran|been|being|completed?|finished|ended|exited) ){0,3}` + verb,
	`(?:no|without|free of|zero)(?: any)?(?: [^ ]+)? ` + trouble,
	`nothing (?:failed|fails|broke|went wrong|is wrong)`,
}, "|") + `)\b`)

// partial matches claims that may be true of a step of a failed command. They are
// accepted if the reply also reports a failure.
var partial = re(`\b(?:succeed(?:s|ed)?|success(?:ful|fully)?|pass(?:ed|es)?|0 ` + trouble + `)\b`)

// denied matches text before a claim that negates it.
var denied = re(`\b(?:not|never|cannot|neither|nor|unless|until|instead of|expected|should|fails? to|failed to|unable to|only)(?: [^ ]+){0,4} $`)

// counted matches text before a claim that limits it to a number, as in "12 tests
// passed" and "80% tests passed".
var counted = re(`\d%? (?:[^ ]+ )?$`)

// admits matches reports of a failure; unmeant matches text that denies one.
var (
	admits  = re(`\b(?:fail\w*|errors?|crash\w*|panic\w*|abort\w*|killed|timed out|broke\w*|undefined|not found|denied|refused|cannot|could not|unable|exception|fatal|signal|exit\w* (?:with |code |status )*[1-9])\b`)
	unmeant = re(`\b(?:no|0|zero|without|despite|ignor\w+|any|all)(?: (?:any|the|all|other|apparent))*(?: [^ ]+)? ` + trouble + `\b`)
)

// successClaim returns the words with which a reply claims that the command succeeded,
// or "".
func successClaim(reply string) string {
	text := bare(reply)
	honest := admits().MatchString(unmeant().ReplaceAllString(text, ""))
	for sentence := range strings.SplitSeq(text, ";") {
		if claim := claimIn(sentence, honest); claim != "" {
			return claim
		}
	}
	return ""
}

func claimIn(sentence string, honest bool) string {
	for _, at := range whole().FindAllStringIndex(sentence, -1) {
		before := sentence[:at[0]]
		if !denied().MatchString(before) && !(honest && counted().MatchString(before)) {
			return sentence[at[0]:at[1]]
		}
	}
	for _, at := range partial().FindAllStringIndex(sentence, -1) {
		if !honest && !denied().MatchString(sentence[:at[0]]) {
			return sentence[at[0]:at[1]]
		}
	}
	return ""
}

var (
	ornaments = re("[*_`'\"“”‘’«»()\\[\\]#>|]+")
	ends      = re(`[.!?:;,](?:\s|$)|\n\s*\n|\n\s*[-•] `)
	spaces    = re(`\s+`)
	shares    = re(`\b(\d+) ?(?:/|of|out of) ?(?:the )?(\d+)\b`)
)

// bare normalizes a reply for the patterns: lower case, one space between words, a
// semicolon after each clause, and "all" or "only some" for fractions.
func bare(reply string) string {
	text := strings.NewReplacer("n't", " not", "n’t", " not", "100%", "all").Replace(strings.ToLower(reply))
	text = shares().ReplaceAllStringFunc(text, func(share string) string {
		if m := shares().FindStringSubmatch(share); m[1] == m[2] {
			return "all"
		}
		return "only some"
	})
	text = ornaments().ReplaceAllString(text, "")
	text = ends().ReplaceAllString(text, " ; ")
	return spaces().ReplaceAllString(text, " ")
}
