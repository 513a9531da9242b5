package redact

import (
	"encoding/base64"
	"html"
	"slices"
	"strings"
)

// known are the values of a Redactor, prepared for searching.
type known struct {
	plain   []string // the values, and their long lines if they have several
	quoted  []string // forms that no decoder decodes
	base64  []encoded
	links   links
	escapes bool // some values have characters that programs escape
	spaced  bool // some values have spaces, which a URL query writes as "+"
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

// add adds a value. It also adds the lines of a long one, since many programs print a
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

// An encoded is the part of a value's base64 that does not depend on its neighbours.
type encoded struct {
	inner          string // the characters that encode only the value
	before, behind bool   // the adjacent character encodes the value and its neighbour
}

// addBase64 adds the three alignments of a value, which depend on the number of bytes
// before it, in both alphabets.
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

// find appends the places of values in s, in any form.
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

// findWrapped finds base64 that is wrapped at line ends.
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
	// maxLevels bounds the nesting of escapes that are decoded: JSON in JSON in JSON, and one more.
	maxLevels = 4

	// maxTexts bounds the number of decoded texts; the first ones matter most.
	maxTexts = 32
)

// An unescaper searches a text with its escapes decoded, and the result decoded again:
// each kind of escape within each other.
type unescaper struct {
	*known
	seen map[string]bool // different orders mostly give the same text
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
		if kind.mark == '\\' { // line ends within base64 in JSON
			found = e.findWrapped(text, found)
		}
		if level < maxLevels && e.escapes {
			found = append(found, e.find(text, level+1, spaced)...)
		}
		spans = append(spans, inRaw(found, text, s, seams)...)
	}
	return spans
}

// inRaw converts spans of a decoded text to spans of the raw one.
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

// widen adds the adjacent characters that depend on the value, and the padding.
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

// appendText appends the places of v in s, and of a prefix of v at the end of s: the
// rest may not have been printed yet.
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
