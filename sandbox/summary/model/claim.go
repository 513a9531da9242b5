package model

import (
	"regexp"
	"strings"
	"sync"
)

// A pattern is compiled when it is first wanted: most programs ask no model, and
// to compile these takes a millisecond.
type pattern = func() *regexp.Regexp

func re(expr string) pattern {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// What a sentence claims of the whole run. Words between quotes and stars are
// bare and in lower case when these are matched.
const (
	subject = `(?:command|build|run|job|script|task|process|operation|execution|pipeline|suite|tests|checks|compilation|deployment|installation|it)`
	verb    = `(?:pass(?:ed|es|ing)?|succeed(?:s|ed|ing)?|successful(?:ly)?|success|worked|works|ok|okay|fine|green|clean(?:ly)?|normally)`
	trouble = `(?:errors?|failures?|problems?|issues?|faults?|fail(?:ed|ing)?)`
)

// whole claims are false of a command that failed, whatever else is said.
var whole = re(`\b(?:` + strings.Join([]string{
	`(?:all|every|everything|each)\b(?: [^ ]+){0,7}? ` + verb,
	subject + ` (?:(?:has|have|had|is|are|was|were|all|now|run|ran|been|being|completed?|finished|ended|exited) ){0,3}` + verb,
	`(?:no|without|free of|zero)(?: any)?(?: [^ ]+)? ` + trouble,
	`nothing (?:failed|fails|broke|went wrong|is wrong)`,
}, "|") + `)\b`)

// partial claims may be true of a step, and so of a command that failed. They
// are taken where the reply says that something failed, too.
var partial = re(`\b(?:succeed(?:s|ed)?|success(?:ful|fully)?|pass(?:ed|es)?|0 ` + trouble + `)\b`)

// denied ends what stands before a claim that is none.
var denied = re(`\b(?:not|never|cannot|neither|nor|unless|until|instead of|expected|should|fails? to|failed to|unable to|only)(?: [^ ]+){0,4} $`)

// counted ends what stands before a claim of some, as in "12 tests passed" and
// "80% tests passed".
var counted = re(`\d%? (?:[^ ]+ )?$`)

// admits finds a failure in a text; unmeant is what says that there is none.
var (
	admits  = re(`\b(?:fail\w*|errors?|crash\w*|panic\w*|abort\w*|killed|timed out|broke\w*|undefined|not found|denied|refused|cannot|could not|unable|exception|fatal|signal|exit\w* (?:with |code |status )*[1-9])\b`)
	unmeant = re(`\b(?:no|0|zero|without|despite|ignor\w+|any|all)(?: (?:any|the|all|other|apparent))*(?: [^ ]+)? ` + trouble + `\b`)
)

// successClaim returns the words by which a reply claims that the command
// succeeded, "" if it does not.
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

// bare brings a reply into the form in which sentences are compared: lower case,
// one space between words, a semicolon behind each clause, and in words whether
// a share is the whole.
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
