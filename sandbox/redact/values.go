package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// known are the values of a Redactor, prepared for searching.
type known struct {
	plain   []string // the values, and their long lines if they have several
	quoted  []string // forms that no decoder decodes
	base64  []encoded
	heads   heads
	words   []string // a part of each value that programs do not escape
	escapes bool     // some values have characters that programs escape
	spaced  bool     // some values have spaces, which a URL query writes as "+"
}

func (r *Redactor) values() *known {
	if r == nil || len(r.Values) == 0 {
		return &none
	}
	r.once.Do(func() {
		for _, v := range r.Values {
			r.known.add(strings.TrimSpace(v))
		}
		for _, list := range []*[]string{&r.known.plain, &r.known.quoted, &r.known.words} {
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
	k.words = append(k.words, longestWord(v))
	for _, form := range append(jsonForms(v), v) {
		k.addBase64(form)
	}
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

// longestWord returns the longest run of letters and digits in a value.
func longestWord(v string) (longest string) {
	for _, word := range strings.FieldsFunc(v, func(r rune) bool { return r >= 0x80 || charset[r]&(1<<base62) == 0 }) {
		if len(word) > len(longest) {
			longest = word
		}
	}
	return longest
}

// jsonForms returns how JavaScript, Go, Python and PHP write a value in JSON if that
// differs from the value. Only their base64 is searched: in other text they are decoded.
func jsonForms(v string) []string {
	if !utf8.ValidString(v) {
		return nil
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(v) // a string has no error
	plain := strings.TrimSuffix(b.String(), "\n")
	forHTML, _ := json.Marshal(v)
	inASCII := asciiJSON(plain)
	forms := []string{plain, string(forHTML), inASCII, strings.ReplaceAll(inASCII, "/", `\/`)}
	for i, form := range forms {
		forms[i] = form[1 : len(form)-1] // without quotes
	}
	slices.Sort(forms)
	return slices.DeleteFunc(slices.Compact(forms), func(form string) bool { return form == v })
}

// asciiJSON escapes the characters of JSON that are not printable ASCII, like Python.
func asciiJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < 0x7f:
			b.WriteByte(byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// An encoded is the part of a value's base64 that does not depend on its neighbours.
type encoded struct {
	inner string // the characters that encode only the value

	// The characters that can be adjacent to inner, if one encodes bits of the value and
	// of its neighbour. Otherwise they are empty.
	before, behind string
}

const (
	stdAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	urlAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// addBase64 adds the three alignments of a value, which depend on the number of bytes
// before it, in both alphabets.
func (k *known) addBase64(v string) {
	for shift := range 3 {
		for _, alphabet := range []string{stdAlphabet, urlAlphabet} {
			text := base64.NewEncoding(alphabet).WithPadding(base64.NoPadding).EncodeToString(append(make([]byte, shift), v...))
			first, end := (8*shift+5)/6, 8*(shift+len(v))/6
			e := encoded{inner: text[first:end]}
			if shift > 0 {
				low := 1 << (6*first - 8*shift)
				for high := 0; high < 64; high += low {
					e.before += alphabet[high+strings.IndexByte(alphabet, text[first-1])%low:][:1]
				}
			}
			if bits := 8*(shift+len(v)) - 6*end; bits > 0 {
				e.behind = alphabet[strings.IndexByte(alphabet, text[end]):][:1<<(6-bits)]
			}
			if alphabet == urlAlphabet && !strings.ContainsAny(e.inner, "-_") {
				// The text is that of the other alphabet, but what is adjacent may not be.
				last := &k.base64[len(k.base64)-1]
				last.before, last.behind = last.before+e.before, last.behind+e.behind
				continue
			}
			k.heads.add(len(k.base64), e.inner)
			k.base64 = append(k.base64, e)
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
	if k.escapes || slices.ContainsFunc(escapings, func(x escaping) bool { return x.inBase64(s) }) {
		spans = k.findEscaped(s, spans)
	}
	return spans
}

const (
	// maxLevels bounds the nesting of escapes that are decoded: JSON in JSON in JSON, and one more.
	maxLevels = 4

	// maxTexts bounds the number of decoded forms of a text. Few kinds of escapes, as one
	// program writes them, have fewer.
	maxTexts = 32

	// maxLineTexts bounds the number of decoded forms of a line, and maxLine its length.
	maxLineTexts = 128
	maxLine      = 16 << 10
)

// findEscaped searches a text with its escapes decoded. If the text has so many kinds of
// them that not all orders can be tried, it also searches each line that can have a
// value. Such a line alone has fewer kinds.
func (k *known) findEscaped(s string, spans []Span) []Span {
	e := unescaper{known: k, seen: map[string]bool{s: true}, most: maxTexts}
	spans = append(spans, e.find(s, 1, false)...)
	if !e.exceeded {
		return spans
	}
	from := 0
	for line := range strings.Lines(s) {
		has := func(word string) bool { return strings.Contains(line, word) }
		if len(line) <= maxLine && strings.ContainsAny(line, `%\'&`) && slices.ContainsFunc(k.words, has) {
			of := unescaper{known: k, seen: map[string]bool{line: true}, most: maxLineTexts}
			for _, x := range of.find(line, 1, false) {
				spans = append(spans, Span{from + x.From, from + x.To, x.Kind})
			}
		}
		from += len(line)
	}
	return spans
}

// An unescaper searches a text with its escapes decoded, and the result decoded again:
// each kind of escape within each other.
type unescaper struct {
	*known
	seen     map[string]bool // different orders mostly give the same text
	most     int             // bounds seen
	exceeded bool            // some text was not searched
}

func (e *unescaper) find(s string, level int, spaced bool) (spans []Span) {
	for _, kind := range escapings {
		within := kind.inBase64(s)
		if !e.escapes && !within {
			continue
		}
		text, seams := unescape(s, kind.mark, kind.decode)
		if seams == nil || e.seen[text] {
			continue
		}
		if len(e.seen) > e.most {
			e.exceeded = true
			continue
		}
		e.seen[text] = true
		var found []Span
		spaced := spaced || e.spaced && kind.mark == '%'
		if e.escapes {
			found = e.findPlain(text, spaced)
		}
		if within {
			found = e.findWrapped(text, e.findBase64(text, found))
		}
		if level < maxLevels {
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
	for i := range k.base64 {
		e := &k.base64[i]
		n := len(spans)
		spans = appendText(spans, s, e.inner)
		for i := n; i < len(spans); i++ {
			spans[i] = e.widen(s, spans[i])
		}
	}
	return spans
}

// widen extends x to the adjacent base64 characters that encode some bits of the value, also if
// a line end is in between, and to the = signs at the end.
func (e *encoded) widen(s string, x Span) Span {
	if i := strings.LastIndexAny(s[max(0, x.From-1):x.From], e.before); i >= 0 {
		x.From--
	} else if nl := strings.LastIndexByte(s[max(0, x.From-maxPrefix-1):x.From], '\n'); nl >= 0 && e.before != "" {
		nl += max(0, x.From-maxPrefix-1)
		line := s[max(0, nl-maxSuffix-1):nl]
		line = line[strings.LastIndexByte(line, '\n')+1:]
		if i := strings.LastIndexAny(line, e.before); i >= 0 {
			x.From = nl - len(line) + i
		}
	}
	if x.To < len(s) && strings.IndexByte(e.behind, s[x.To]) >= 0 {
		x.To++
	} else if nl := strings.IndexByte(s[x.To:min(len(s), x.To+maxSuffix+1)], '\n'); nl >= 0 && e.behind != "" {
		nl += x.To + 1
		line, _, _ := strings.Cut(s[nl:min(len(s), nl+maxPrefix+1)], "\n")
		if i := strings.IndexAny(line, e.behind); i >= 0 {
			x.To = nl + i + 1
		}
	}
	for n := 0; n < 2 && x.To < len(s) && s[x.To] == '='; n++ {
		x.To++
	}
	return x
}

func inBase64(c byte) bool { return charset[c]&(1<<base64url) != 0 || c == '+' || c == '/' }

// minCut is the minimum length of the prefix of a value, or of its base64, that is
// masked at the end of a text.
const minCut = 4

// appendText appends the places of v in s, and of a prefix of v at the end of s: the
// rest may not have been printed yet.
func appendText(spans []Span, s, v string) []Span {
	const most = 4096
	end := 0
	for {
		i := strings.Index(s[end:], v)
		if i < 0 {
			break
		}
		spans = append(spans, Span{end + i, end + i + len(v), "secret"})
		end += i + len(v)
	}
	for n := min(len(v)-1, len(s)-end, most); n >= minCut; n-- {
		if v[n-1] == s[len(s)-1] && strings.HasSuffix(s, v[:n]) {
			return append(spans, Span{len(s) - n, len(s), "secret"})
		}
	}
	return spans
}
