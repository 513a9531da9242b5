package policy

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An editor makes random commands of given ones, such as are near to what a
// shell reads otherwise than a parser.
type editor struct {
	random *rand.Rand
	seeds  []trial
	made   int
}

func newEditor(t testing.TB, seed uint64) *editor {
	e := &editor{random: rand.New(rand.NewPCG(seed, 0))}
	for _, r := range table(t, "testdata/policy_dev.tsv") {
		e.add(r.list, r.cmd)
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

// shapes are commands that use much of what is allowed, to be edited.
var shapes = []string{
	"cat <<E\n${x}E\nls\nE\nls", "cat <<-'E' | wc\n\ta\\\n\tE\nls", "ls \"$(cat <<E\n$(ls)`ls`\nE\n)\" x", "cat <<\"E\"\n'\nE\nls '\n'",
	"ls `ls \\`ls\\``", "ls \"`ls \\$x \\\\\\$x`\"", "ls \"${x:-$(ls)}${y#a}\" ${x:+'$(ls)'}", "ls \\\n -l \\\n && cat 'a\\\nb'",
	"for i in a b 'c d'; do ls $i; done | head", "case $x in a|b) ls;; (*) cat x;; esac", "while grep x y; do cat x; done < x > /tmp/y",
	"if ! ls x 2>/dev/null; then cat x; fi", "{ ls; (cat x; ls) 2>&1; } | head -1", "x=$(ls) y='a b' ls \"$x\" ${#x} $# $?", "ls a\\ b 'a'\"b\"c ~ {a,b} *.go [a-z]?",
	"find . -name 'x*' -exec grep -l {} \\; -o -exec wc {} +", "ls # '\nls \"#\" a#b", "ls a{b,'c d'}\"$(ls)\"`cat x`", "until ls; do :\ndone",
	"ls \"a\\\"b\\$(ls)\\`ls\\`\"", "ls $'a' $\"b\" $ \"$\"", "ls 1>&2 2>&- <x >>/tmp/x", "cat <<A; cat <<B\na\nA\nb\nB",
}

// pieces are what an edit puts in.
var pieces = []string{
	"rm x", "$(rm x)", "`rm x`", "\\`rm x\\`", "'$(rm x)'", "\"$(rm x)\"", "\n", ";", "&", "&&", "||", "|", "!", "(", ")", "{", "}", "'", "\"", "`", "\\", "\\\n", "$", "$(", "${", "}",
	"${x:-", "${x#", "${x%", "${x:=", "#", " #", "<<E", "<<'E'", "<<-E", "\nE\n", "\nE", "E", "\\E", "<", ">", ">>", "<&", ">&", "2>", ">/tmp/x", "</dev/null", "~", "~-", "*", "?", "[", "]",
	"{a,b}", "{}", "a=b", "x=-delete", "PATH=/tmp", "RANDOM='a[$(rm x)]'", "OLDPWD=-delete", "case x in", "x)", ";;", "esac", "if", "then", "fi", "for x in", "do", "done", "while", "time", "in",
	"-exec", "rm", "{} +", "\\;", "';'", "--", "-e", "-i", "-f", "-", "$x", "$@", "\"$x\"", "$((", "))", "$'\\''", " ", "\t", "é", "1", "ls", "cat", "xargs", "env", "\\$", "\\\\", "\"}", "'}", "e", "w /tmp/x",
}

var token = regexp.MustCompile(`\w+|\s+|\W`)

// allowed makes commands until the check allows one.
func (e *editor) allowed() trial {
	for {
		tr := e.seeds[e.random.IntN(len(e.seeds))]
		for range 1 + e.random.IntN(4) {
			tr.cmd = e.edit(tr.cmd)
		}
		e.made++
		if len(tr.cmd) < 2000 && tr.list.Check(tr.cmd, nil) == nil {
			return tr
		}
	}
}

func (e *editor) edit(cmd string) string {
	words := token.FindAllString(cmd, -1)
	at := e.random.IntN(len(words) + 1)
	upTo := min(at+1+e.random.IntN(3), len(words))
	switch e.random.IntN(8) {
	case 0: // take out
		words = slices.Delete(words, at, upTo)
	case 1: // repeat
		words = slices.Insert(words, e.random.IntN(len(words)+1), words[at:upTo]...)
	case 2: // put in a part of another command
		other := token.FindAllString(e.seeds[e.random.IntN(len(e.seeds))].cmd, -1)
		from := e.random.IntN(len(other))
		words = slices.Insert(words, at, other[from:min(from+1+e.random.IntN(8), len(other))]...)
	case 3: // quote, or enclose otherwise
		pair := strings.Fields("' ' \" \" $( ) ` ` ${x:- } \"$( )\" \"${x:- }\" \"${x#' '}\" ( ) {a, }")
		i := 2 * e.random.IntN(len(pair)/2)
		words = slices.Insert(words, upTo, pair[i+1])
		words = slices.Insert(words, at, pair[i])
	default:
		words = slices.Insert(words, at, pieces[e.random.IntN(len(pieces))])
	}
	return strings.Join(words, "")
}
