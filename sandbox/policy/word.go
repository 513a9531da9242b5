package policy

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A place is the context of a part of a word. It decides what quotes mean.
type place int

const (
	bare       place = iota
	quoted           // in double quotes or in a here-document
	quotedElse       // in the word of a ${x:-word} that is quoted
)

// words checks the commands in the expansions of words.
func (k *checker) words(list []*syntax.Word) error {
	for _, w := range list {
		if err := k.parts(w.Parts, bare); err != nil {
			return err
		}
	}
	return nil
}

func (k *checker) parts(list []syntax.WordPart, in place) error {
	for _, p := range list {
		if err := k.part(p, in); err != nil {
			return err
		}
	}
	return nil
}

func (k *checker) part(p syntax.WordPart, in place) error {
	const noDollar = "Write the characters themselves, or use printf if it is allowed."
	switch p := p.(type) {
	case *syntax.Lit:
		// "${x:-'$(rm)'}" runs rm, while ${x:-'$(rm)'} does not, and parsers get
		// this wrong. So no quotes are allowed here.
		if in == quotedElse && strings.ContainsAny(p.Value, `'"\`) {
			return quoteWithin()
		}
		return nil
	case *syntax.SglQuoted:
		if p.Dollar {
			return denied(noDollar, "$'…' is not allowed: shells read it differently")
		}
		k.literal = append(k.literal, span{at(p.Left), at(p.Right)})
		if in != bare {
			return quoteWithin()
		}
		return nil
	case *syntax.DblQuoted:
		if p.Dollar {
			return denied(noDollar, `$"…" is not allowed: shells read it differently`)
		}
		if in != bare {
			return quoteWithin()
		}
		return k.parts(p.Parts, quoted)
	case *syntax.ParamExp:
		return k.nested(func() error { return k.param(p, in) })
	case *syntax.CmdSubst:
		return k.nested(func() error { return k.substitution(p, in) })
	case *syntax.ArithmExp:
		return denied("Compute it in a program.", "arithmetic is not allowed: it evaluates the text of variables as code")
	}
	return denied(useSimple, "this kind of expansion is not allowed: POSIX shells do not support it")
}

func at(p syntax.Pos) int { return int(p.Offset()) }

func quoteWithin() error {
	return denied("Set a variable first, and use that.", "quotes and backslashes are not allowed in the word of a quoted ${…}: shells read them differently")
}

func (k *checker) param(p *syntax.ParamExp, in place) error {
	const accept = "Allowed: $x ${x} ${#x} ${x:-w} ${x-w} ${x:+w} ${x+w} ${x%w} ${x%%w} ${x#w} ${x##w}."
	if p.Param == nil || p.Flags != nil || p.Excl || p.Width || p.IsSet || p.NestedParam != nil ||
		p.Index != nil || p.Modifiers != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 {
		return denied(accept, "this kind of ${…} is not allowed")
	}
	if p.Exp == nil {
		return nil
	}
	switch p.Exp.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AlternateUnset, syntax.AlternateUnsetOrNull,
		syntax.RemSmallSuffix, syntax.RemLargeSuffix, syntax.RemSmallPrefix, syntax.RemLargePrefix:
	default:
		return denied(accept, "%s in ${…} is not allowed", p.Exp.Op)
	}
	if p.Exp.Word == nil {
		return nil
	}
	if in != bare {
		in = quotedElse
	}
	return k.parts(p.Exp.Word.Parts, in)
}

func (k *checker) substitution(c *syntax.CmdSubst, in place) error {
	if c.TempFile || c.ReplyVar {
		return denied("Write $(…).", "${ …;} is not allowed: POSIX shells do not support it")
	}
	if len(c.Stmts) == 0 {
		return denied("", "a substitution without a command is not allowed")
	}
	if c.Backquotes {
		return k.backquotes(c, in)
	}
	return k.stmts(c.Stmts)
}

// backquotes checks `…` as a shell reads it: the shell reads everything up to the
// next backquote without a backslash, regardless of quotes, removes some of the
// backslashes, and parses the result. The syntax tree of our parser, which does this
// in one step, is not used.
func (k *checker) backquotes(c *syntax.CmdSubst, in place) error {
	text, ok := backquoted(k.src[at(c.Left):])
	end := at(c.Left) + len(text) + 1
	if !ok || end != at(c.Right) || in != bare && strings.Contains(text, `"`) {
		return denied("Write $(…).", "these quotes are not allowed within backquotes: shells read them differently")
	}
	k.literal = append(k.literal, span{at(c.Left), end})
	inner := &checker{rules: k.rules, budget: k.budget, src: unescape(text, "\\$`"), lang: k.lang}
	return inner.check()
}

// backquoted returns the text between the backquote at the start of s and the next
// one.
func backquoted(s string) (text string, ok bool) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '`':
			return s[1:i], s[0] == '`'
		}
	}
	return "", false
}

// unescape removes the backslash before each of the special characters.
func unescape(s, special string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if strings.IndexByte(special, s[i+1]) < 0 {
				b.WriteByte(s[i])
			}
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// A word is an argument of a command, as far as it is known before the command runs.
type word struct {
	raw    string // as written
	text   string // the argument that the program gets, if static
	plain  bool   // one literal without quotes, escapes or special characters
	static bool   // no expansion in it, except possibly a file name pattern
	single bool   // it becomes exactly one argument
	glob   int    // where in text a file name pattern begins; -1 if there is none
}

// revision matches the braces of git's @{u} and stash@{0}. Shells do not expand braces
// without a comma or two dots.
var revision = regexp.MustCompile(`@\{-?[A-Za-z0-9]+\}`)

func (k *checker) read(w *syntax.Word) word {
	r := word{raw: k.src[at(w.Pos()):min(at(w.End()), len(k.src))], glob: -1}
	if lit, ok := w.Parts[0].(*syntax.Lit); ok && len(w.Parts) == 1 {
		r.plain = r.raw == lit.Value && isPlain(r.raw)
	}
	var b static
	r.static = b.parts(w.Parts)
	r.text = b.text.String()
	if b.glob {
		r.glob = b.globAt
	}
	// ~- is the value of a variable, so a word that begins with ~ is not known.
	names := b.unquoted.String()
	tilde := strings.HasPrefix(names, "~") || strings.Contains(names, "=~") || strings.Contains(names, ":~")
	braces := strings.ContainsAny(names, "{}") && strings.ContainsAny(revision.ReplaceAllString(strings.ReplaceAll(names, "{}", ""), "@"), "{}")
	r.static = r.static && !tilde && !braces
	r.single = isSingle(w.Parts) && !b.glob && !tilde && !braces
	return r
}

// isSingle reports whether every expansion is in quotes and none of them becomes
// several words there.
func isSingle(list []syntax.WordPart) bool {
	for _, p := range list {
		switch p := p.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst:
			return false
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				if e, ok := q.(*syntax.ParamExp); ok && e.Param.Value == "@" {
					return false
				}
			}
		}
	}
	return true
}

// A static collects the value of a word.
type static struct {
	text     strings.Builder
	unquoted strings.Builder // the same, with x for each quoted part
	glob     bool
	globAt   int
}

// parts reports whether the value is known. It reads an unknown value to the end, to
// find patterns in it.
func (b *static) parts(list []syntax.WordPart) (known bool) {
	known = true
	for _, p := range list {
		switch p := p.(type) {
		case *syntax.Lit:
			b.literal(p.Value)
		case *syntax.SglQuoted:
			b.quote(p.Value)
		case *syntax.DblQuoted:
			known = b.double(p) && known
		default:
			known = false
		}
	}
	return known
}

func (b *static) quote(s string) {
	b.text.WriteString(s)
	b.unquoted.WriteByte('x')
}

func (b *static) double(q *syntax.DblQuoted) bool {
	b.unquoted.WriteByte('x')
	for _, p := range q.Parts {
		lit, ok := p.(*syntax.Lit)
		if !ok {
			return false // no pattern can follow within the quotes
		}
		b.quote(unescape(lit.Value, "\\$`\""))
	}
	return true
}

func (b *static) literal(s string) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			b.quote(s[i : i+1])
			continue
		}
		if !b.glob && strings.IndexByte("*?[", s[i]) >= 0 {
			b.glob, b.globAt = true, b.text.Len()
		}
		b.text.WriteByte(s[i])
		b.unquoted.WriteByte(s[i])
	}
}
