package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// reserved is in the paths of the agent's own files. The saved state of a named
// shell is one of them, and it is a script.
const reserved = "/warmbox-"

func (k *checker) redirect(r *syntax.Redirect) error {
	if r.N != nil && !isDigit(r.N.Value) {
		return denied("Use the descriptors 0 to 9.", "a redirect of the descriptor %s is not allowed", r.N.Value)
	}
	if err := k.words([]*syntax.Word{r.Word}); err != nil {
		return err
	}
	to := k.read(r.Word)
	switch r.Op {
	case syntax.DplIn, syntax.DplOut:
		if to.plain && (isDigit(to.text) || to.text == "-") {
			return nil
		}
		return denied("Write it as in 2>&1.", "a redirect to the descriptor %s is not allowed", to.raw)
	case syntax.RdrOut, syntax.AppOut:
		if to.plain && (to.text == "/dev/null" || under(to.text, "/tmp") && !strings.Contains(to.text, reserved)) {
			return nil
		}
		return denied("Redirect output to /dev/null, or to a file under /tmp written as plain text.", "a redirect of output to %s is not allowed", to.raw)
	case syntax.RdrIn:
		if to.static && to.glob < 0 && (to.text == "/dev/null" || under(to.text, "/tmp") || inWorkspace(to.text)) {
			return nil
		}
		return denied("Redirect input from /dev/null, /tmp or the workspace.", "a redirect of input from %s is not allowed", to.raw)
	case syntax.Hdoc, syntax.DashHdoc:
		return k.hereDocument(r)
	}
	return denied("Use > >> < << and 2>&1.", "the redirect %s is not allowed", r.Op)
}

func isDigit(s string) bool { return len(s) == 1 && '0' <= s[0] && s[0] <= '9' }

// under reports whether a path is below dir and has no "..".
func under(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir+"/")
	return ok && rest != "" && !upwards(rest)
}

// inWorkspace reports whether a path is in the workspace. A relative path is.
func inWorkspace(path string) bool {
	return path == "/workspace" || under(path, "/workspace") || path != "" && path[0] != '/' && !upwards(path)
}

func upwards(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if name == ".." {
			return true
		}
	}
	return false
}

// hereDocument checks the text of a here-document. It finds the end by itself, since
// the end decides what is data and what is code, and parsers get unusual bodies and
// delimiters wrong.
func (k *checker) hereDocument(r *syntax.Redirect) error {
	end, isQuoted := delimiter(r.Word)
	from, to := k.hereBody(r, end)
	if end == "" || to < 0 || !agrees(r.Hdoc, from, to) {
		return denied("Begin it with <<'EOF', one per line, and end it with EOF alone on a line.", "this form of here-document is not allowed: shells read it differently")
	}
	if isQuoted {
		k.literal = append(k.literal, span{from, to})
		return nil
	}
	if k.hereDoc == 0 {
		k.hereDoc = from
	}
	if r.Hdoc == nil {
		return nil
	}
	return k.parts(r.Hdoc.Parts, quoted)
}

// delimiter returns the word that ends a here-document, or "" if it is unusual, and
// whether it is quoted, which makes the body data.
func delimiter(w *syntax.Word) (text string, isQuoted bool) {
	if len(w.Parts) != 1 {
		return "", false
	}
	switch p := w.Parts[0].(type) {
	case *syntax.Lit:
		text, isQuoted = strings.CutPrefix(p.Value, `\`)
	case *syntax.SglQuoted:
		text, isQuoted = p.Value, !p.Dollar
	case *syntax.DblQuoted:
		text, isQuoted = (&syntax.Word{Parts: p.Parts}).Lit(), !p.Dollar
	}
	if !isPlain(text) {
		return "", false
	}
	return text, isQuoted
}

// hereBody returns where the body begins, after the line with the <<, and where the
// line with the delimiter ends; to is -1 if shells do not agree on it. A line that
// only begins with the delimiter ends the body for bash in $(…).
func (k *checker) hereBody(r *syntax.Redirect, end string) (from, to int) {
	op := at(r.OpPos)
	first := strings.IndexByte(k.src[op:], '\n')
	if first < 0 {
		return 0, -1
	}
	from = op + first + 1
	to = from
	for line := range strings.Lines(k.src[from:]) {
		text := strings.TrimSuffix(line, "\n")
		to += len(text)
		bare := strings.TrimLeft(text, "\t")
		switch {
		case text == end, bare == end && r.Op == syntax.DashHdoc:
			return from, to
		case strings.HasPrefix(bare, end):
			return from, -1
		}
		to++
	}
	return from, -1
}

// agrees reports whether the parser found the same body. For an empty body it
// returns none.
func agrees(body *syntax.Word, from, to int) bool {
	return body == nil || at(body.Pos()) == from && at(body.End()) == to
}
