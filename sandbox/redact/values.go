package redact

import (
	"encoding/base64"
	"html"
	"slices"
	"strings"
)

// known is what is looked for of the values that a Redactor is given.
type known struct {
	plain   []string // as they are, and the long lines of those that have several
	quoted  []string // in forms that no decoder undoes
	base64  []encoded
	links   links
	escapes bool // some have characters that programs escape
	spaced  bool // some have spaces, which a query writes as "+"
}

func (r *Redactor) values() *known {
	if r == nil || len(r.Values) == 0 {
		return &none
	}
	r.once.Do(func() {
		for _, v := range r.Values {
			r.known.add(strings.TrimSpace(v))
		}
		for _, list := range []*[]string{&r.known.plain, &r.known.quoted} {
			slices.Sort(*list)
			*list = slices.Compact(*list)
		}
	})
	return &r.known
}

var none known

// add takes a value, and the lines of a long one, since many programs print a
// prefix before each line.
func (k *known) add(v string) {
	if len(v) < MinValue {
		return
	}
	k.addText(v)
	const minLine = 16
	for line := range strings.Lines(v) {
		if line = strings.TrimSpace(line); len(line) >= minLine && line != v {
			k.addText(line)
		}
	}
}

func (k *known) addText(v string) {
	k.plain = append(k.plain, v)
	k.addBase64(v)
	k.spaced = k.spaced || strings.Contains(v, " ")
	for i := range len(v) {
		if charset[v[i]]&(1<<dotted) == 0 {
			k.escapes = true
		}
	}
	for _, q := range []string{strings.ReplaceAll(v, "'", `'\''`), strings.ReplaceAll(v, "'", `'"'"'`), strings.ReplaceAll(v, " ", "+"), html.EscapeString(v)} {
		if q != v {
			k.quoted = append(k.quoted, q)
		}
	}
}

// An encoded is what base64 makes of a value, whatever stands around it.
type encoded struct {
	inner          string // the characters that are made of the value alone
	before, behind bool   // the next character is made of the value and of its neighbour
}

// addBase64 adds a value's three alignments, which depend on how many bytes come
// before it, in the two alphabets.
func (k *known) addBase64(v string) {
	for shift := range 3 {
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), v...))
		first, end := (8*shift+5)/6, 8*(shift+len(v))/6
		e := encoded{text[first:end], shift > 0, 8*(shift+len(v))%6 != 0}
		k.base64 = append(k.base64, e)
		k.links.add(e.inner)
		if url := strings.NewReplacer("+", "-", "/", "_").Replace(e.inner); url != e.inner {
			k.base64 = append(k.base64, encoded{url, e.before, e.behind})
			k.links.add(url)
		}
	}
}

// find adds where values stand in s, in whatever form.
func (k *known) find(s string, spans []Span) []Span {
	if len(k.plain) == 0 {
		return spans
	}
	for _, list := range [][]string{k.plain, k.quoted} {
		for _, v := range list {
			spans = appendText(spans, s, v)
		}
	}
	spans = k.findWrapped(s, k.findBase64(s, spans))
	if k.escapes || strings.Contains(s, `\n`) {
		e := unescaper{known: k, seen: map[string]bool{s: true}}
		spans = append(spans, e.find(s, 1, false)...)
	}
	return spans
}

// findWrapped looks for base64 across the ends of lines.
func (k *known) findWrapped(s string, spans []Span) []Span {
	for _, signed := range []bool{false, true} {
		if signed && !strings.Contains(s, "\n+") && !strings.Contains(s, "\n-") {
			break
		}
		joined, seams := k.links.join(s, signed)
		if seams == nil {
			continue
		}
		for _, x := range k.findBase64(joined, nil) {
			spans = append(spans, Span{rawAt(seams, x.From), rawAt(seams, x.To-1) + 1, x.Kind})
		}
	}
	return spans
}

const (
	// maxLevels is how often escapes are undone: JSON in JSON in JSON, and once more.
	maxLevels = 4

	// maxTexts is how many texts that is at most, of which the first ones tell most.
	maxTexts = 32
)

// An unescaper looks into a text without its escapes, those of what that holds, and so
// on: each kind within each other.
type unescaper struct {
	*known
	seen map[string]bool // two orders mostly give the same text
}

func (e *unescaper) find(s string, level int, spaced bool) (spans []Span) {
	for _, kind := range escapings {
		if !e.escapes && kind.mark != '\\' {
			continue
		}
		text, seams := unescape(s, kind.mark, kind.decode)
		if seams == nil || e.seen[text] || len(e.seen) > maxTexts {
			continue
		}
		e.seen[text] = true
		var found []Span
		spaced := spaced || e.spaced && kind.mark == '%'
		if e.escapes {
			found = e.findPlain(text, spaced)
		}
		if kind.mark == '\\' { // the ends of lines of base64 in JSON
			found = e.findWrapped(text, found)
		}
		if level < maxLevels && e.escapes {
			found = append(found, e.find(text, level+1, spaced)...)
		}
		spans = append(spans, inRaw(found, text, s, seams)...)
	}
	return spans
}

// inRaw says where spans of a decoded text are in the raw one.
func inRaw(spans []Span, text, raw string, seams []seam) []Span {
	for i, x := range spans {
		to := len(raw)
		if x.To < len(text) {
			to = rawAt(seams, x.To)
		}
		spans[i].From, spans[i].To = rawAt(seams, x.From), to
	}
	return spans
}

func (k *known) findPlain(s string, spaced bool) (spans []Span) {
	for _, v := range k.plain {
		spans = appendText(spans, s, v)
		if spaced && strings.Contains(v, " ") {
			spans = appendText(spans, s, strings.ReplaceAll(v, " ", "+"))
		}
	}
	return spans
}

func (k *known) findBase64(s string, spans []Span) []Span {
	for _, e := range k.base64 {
		n := len(spans)
		spans = appendText(spans, s, e.inner)
		for i := n; i < len(spans); i++ {
			spans[i] = e.widen(s, spans[i])
		}
	}
	return spans
}

// widen adds what else of the encoding tells of the value.
func (e encoded) widen(s string, x Span) Span {
	if e.before && x.From > 0 && inBase64(s[x.From-1]) {
		x.From--
	}
	if e.behind && x.To < len(s) && inBase64(s[x.To]) {
		x.To++
	}
	for n := 0; n < 2 && x.To < len(s) && s[x.To] == '='; n++ {
		x.To++
	}
	return x
}

func inBase64(c byte) bool { return charset[c]&(1<<base64url) != 0 || c == '+' || c == '/' }

// appendText adds where v stands in s, and its beginning at the end of s:
// the rest of it may just not have been printed yet.
func appendText(spans []Span, s, v string) []Span {
	end := 0
	for {
		i := strings.Index(s[end:], v)
		if i < 0 {
			break
		}
		spans = append(spans, Span{end + i, end + i + len(v), "secret"})
		end += i + len(v)
	}
	const least, most = 4, 4096
	for n := min(len(v)-1, len(s)-end, most); n >= least; n-- {
		if v[n-1] == s[len(s)-1] && strings.HasSuffix(s, v[:n]) {
			return append(spans, Span{len(s) - n, len(s), "secret"})
		}
	}
	return spans
}
