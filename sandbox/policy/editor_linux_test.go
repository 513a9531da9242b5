package policy

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An editor makes random commands from given ones. They are near the cases that a
// shell reads differently from a parser.
type editor struct {
	random *rand.Rand
	seeds  []trial
	made   int
}

func newEditor(t testing.TB, seed uint64) *editor {
	e := &editor{random: rand.New(rand.NewPCG(seed, 0))}
	for _, file := range tables {
		for _, r := range table(t, file) {
			e.add(r.list, r.cmd)
		}
	}
	e.add(listOf(readers), shapes...)
	for _, r := range rule {
		e.add(listOf(r.list), r.allowed...)
		e.add(listOf(r.list), r.denied...)
	}
	return e
}

func (e *editor) add(list Commands, cmds ...string) {
	for _, cmd := range cmds {
		if cmd != "" && len(cmd) < 400 {
			e.seeds = append(e.seeds, trial{cmd, list})
		}
	}
}

// shapes are seeds that use many allowed constructs.
var shapes = []string{
	"cat <<E\n${x}E\nls\nE\nls", "cat <<-'E' | wc\n\ta\\\n\tE\nls", "ls \"$(cat <<E\n$(ls)`ls`\nE\n)\" x", "cat <<\"E\"\n'\nE\nls '\n'",
	"ls `ls \\`ls\\``", "ls \"`ls \\$x \\\\\\$x`\"", "ls \"${x:-$(ls)}${y#a}\" ${x:+'$(ls)'}", "ls \\\n -l \\\n && cat 'a\\\nb'",
	"for i in a b 'c d'; do ls $i; done | head", "case $x in a|b) ls;; (*) cat x;; esac", "while grep x y; do cat x; done < x > /tmp/y",
	"if ! ls x 2>/dev/null; then cat x; fi", "{ ls; (cat x; ls) 2>&1; } | head -1", "x=$(ls) y='a b' ls \"$x\" ${#x} $# $?", "ls a\\ b 'a'\"b\"c ~ {a,b} *.go [a-z]?",
	"find . -name 'x*' -exec grep -l {} \\; -o -exec wc {} +", "ls # '\nls \"#\" a#b", "ls a{b,'c d'}\"$(ls)\"`cat x`", "until ls; do :\ndone",
	"ls \"a\\\"b\\$(ls)\\`ls\\`\"", "ls $'a' $\"b\" $ \"$\"", "ls 1>&2 2>&- <x >>/tmp/x", "cat <<A; cat <<B\na\nA\nb\nB",
}

// pieces are texts that an edit inserts.
var pieces = []string{
	"evil x", "$(evil x)", "`evil x`", "\\`evil x\\`", "'$(evil x)'", "\"$(evil x)\"", "\n", ";", "&", "&&", "||", "|", "!", "(", ")", "{", "}", "'", "\"", "`", "\\", "\\\n", "$", "$(", "${", "}",
	"${x:-", "${x#", "${x%", "${x:=", "#", " #", "<<E", "<<'E'", "<<-E", "\nE\n", "\nE", "E", "\\E", "<", ">", ">>", "<&", ">&", "2>", ">/tmp/x", "</dev/null", "~", "~-", "*", "?", "[", "]",
	"{a,b}", "{}", "a=b", "x=-delete", "PATH=/tmp", "RANDOM='a[$(evil x)]'", "OLDPWD=-delete", "case x in", "x)", ";;", "esac", "if", "then", "fi", "for x in", "do", "done", "while", "time", "in",
	"-exec", "evil", "{} +", "\\;", "';'", "--", "-e", "-i", "-f", "-", "$x", "$@", "\"$x\"", "$((", "))", "$'\\''", " ", "\t", "é", "1", "ls", "cat", "xargs", "env", "\\$", "\\\\", "\"}", "'}", "e", "w /tmp/x",
}

var token = regexp.MustCompile(`\w+|\s+|\W`)

// allowed generates commands until the check allows one.
func (e *editor) allowed() trial {
	for {
		tr := e.seeds[e.random.IntN(len(e.seeds))]
		edits := 1 + e.random.IntN(4)
		if e.random.IntN(2) == 0 {
			tr, edits = trial{e.command(3), listOf(readers)}, e.random.IntN(3)
		}
		for range edits {
			tr.cmd = e.edit(tr.cmd)
		}
		e.made++
		if len(tr.cmd) < 2000 && tr.list.Check(tr.cmd, nil) == nil {
			return tr
		}
	}
}

// command composes a command of quotes, expansions and comments, with evil in every
// place for data. depth bounds the nesting.
func (e *editor) command(depth int) string {
	if depth == 0 {
		return "ls"
	}
	depth--
	return e.oneOf(
		func() string { return "ls " + e.word(depth) + " " + e.word(depth) },
		func() string {
			return e.command(depth) + e.pick(";", "\n", " && ", "|", "\n\n", ";\n") + e.command(depth)
		},
		func() string { return e.command(depth) + " #" + e.junk("\n") + "\n" + e.command(depth) },
		func() string {
			return "cat <<E" + e.pick("", " |wc", " x", ";ls") + "\n" + e.quoted(depth, "") + "\nE\n"
		},
		func() string {
			return "cat <<" + e.pick("'E'", `"E"`, "\\E", "-'E'") + "\n" + e.junk("") + "\nE\n" + e.command(depth)
		},
		func() string { return "x=" + e.word(depth) + " " + e.command(depth) },
		func() string {
			return "case " + e.word(depth) + " in " + e.word(depth) + ") " + e.command(depth) + "\n;; esac"
		},
		func() string { return e.pick("{ ", "(", "! ") + e.command(depth) + e.pick("\n}", "\n)", "") },
		func() string { return "find . -name " + e.word(depth) + " -exec ls " + e.word(depth) + " \\;" },
	)
}

func (e *editor) word(depth int) string {
	if depth == 0 {
		return e.pick("a", "é", "a#", "\\'", `\"`, "\\$", "\\`", "*", "$", "$x", "~", "\\#")
	}
	depth--
	return e.oneOf(
		func() string { return "'" + e.junk("'") + "'" },
		func() string { return `"` + e.quoted(depth, `"`) + `"` },
		func() string { return "$(" + e.command(depth) + e.pick("", "\n", " # \n") + ")" },
		func() string { return "`" + e.command(depth) + "`" },
		func() string { return "${x" + e.pick(":-", "-", "#", "%", "+") + e.word(depth) + "}" },
		func() string { return e.word(depth) + e.pick("", " ", " \\\n ", "\\\n") + e.word(depth) },
	)
}

// quoted returns text for double quotes or a here-document.
func (e *editor) quoted(depth int, not string) string {
	if depth == 0 {
		return e.junk("$`" + not)
	}
	depth--
	return e.oneOf(
		func() string {
			return e.quoted(depth, not) + e.pick("", "\n", "'", "#", "\\$(evil x)", "\\`evil x\\`", "E", "\nE") + e.quoted(depth, not)
		},
		func() string { return "$(" + e.command(depth) + ")" + e.quoted(depth, not) },
		func() string { return "`" + e.command(depth) + "`" + e.quoted(depth, not) },
		func() string {
			return "${x" + e.pick(":-", "#", "%", "+") + e.quoted(depth, not) + "}" + e.quoted(depth, not)
		},
	)
}

// junk returns text without the characters in not, which must stay data.
func (e *editor) junk(not string) string {
	var b strings.Builder
	for range e.random.IntN(4) {
		b.WriteString(e.pick("evil x", "$(evil x)", "`evil x`", "\nevil x\n", "'", `"`, "#", "\\", "E", "\nE\n", ")", "}", "${x}", "\\\n", ";", " ", "esac", "a"))
	}
	drop := func(r rune) rune {
		if strings.ContainsRune(not, r) {
			return -1
		}
		return r
	}
	return strings.Map(drop, b.String())
}

func (e *editor) pick(of ...string) string             { return of[e.random.IntN(len(of))] }
func (e *editor) oneOf(makers ...func() string) string { return makers[e.random.IntN(len(makers))]() }

func (e *editor) edit(cmd string) string {
	words := token.FindAllString(cmd, -1)
	at := e.random.IntN(len(words) + 1)
	upTo := min(at+1+e.random.IntN(3), len(words))
	switch e.random.IntN(8) {
	case 0: // delete
		words = slices.Delete(words, at, upTo)
	case 1: // repeat
		words = slices.Insert(words, e.random.IntN(len(words)+1), words[at:upTo]...)
	case 2: // insert a part of another command
		other := token.FindAllString(e.seeds[e.random.IntN(len(e.seeds))].cmd, -1)
		from := e.random.IntN(len(other))
		words = slices.Insert(words, at, other[from:min(from+1+e.random.IntN(8), len(other))]...)
	case 3: // quote, or enclose in another way
		pair := strings.Fields("' ' \" \" $( ) ` ` ${x:- } \"$( )\" \"${x:- }\" \"${x#' '}\" ( ) {a, }")
		i := 2 * e.random.IntN(len(pair)/2)
		words = slices.Insert(words, upTo, pair[i+1])
		words = slices.Insert(words, at, pair[i])
	default:
		words = slices.Insert(words, at, pieces[e.random.IntN(len(pieces))])
	}
	return strings.Join(words, "")
}
