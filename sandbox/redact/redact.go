// Package redact hides secrets in text that goes to a reader: a reply, a
// summary, what is sent to a model. It knows the values that it is given and the
// well-known forms of keys, tokens, private keys and passwords.
//
// It protects against accidents, an environment that a test prints or a key in
// an error message, and not against a program that means to leak: text that is
// compressed or spelt backwards passes. Of a given value it knows the escapes
// that programs write it with, and those of those: of JSON, shells, URLs and HTML; and base64. Where a form is not distinctive, it would
// rather show a weak password than hide commit hashes and the names of tests.
//
// The caller masks before it cuts and shows, never afterwards, since half of a
// secret has no form any more: Within and Ranges are made for that. What is to
// stay true, the raw log, must not pass through here.
package redact

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
)

// MinValue is the length from which on a value is masked wherever it stands. A
// shorter one, such as "true", would make holes in innocent text.
const MinValue = 6

// A Redactor masks secrets. Its zero value, and a nil one, know the well-known
// forms. It is safe for use by several goroutines; Values must not change once
// it is in use.
type Redactor struct {
	Values []string // masked wherever they stand; those below MinValue are not taken

	once  sync.Once
	known known // the values, and how programs write them
}

// Longest is how long the longest of the values can be as programs write it. A base64
// or an escape makes at most three bytes of one, in ASCII.
func (r *Redactor) Longest() int {
	longest := 0
	if r != nil {
		for _, v := range r.Values {
			longest = max(longest, 3*len(v))
		}
	}
	return longest
}

// Text returns s with each secret replaced by its kind, ‹github token›. Masking
// what is masked changes nothing.
func (r *Redactor) Text(s string) string {
	spans := r.find(s)
	if len(spans) == 0 {
		return s
	}
	var b strings.Builder
	render(&b, s, 0, len(s), spans)
	return b.String()
}

// Name masks a short text that may be cut: the name of a process has 15 bytes. A
// beginning of a value, of eight bytes and more, is masked wherever it stands.
func (r *Redactor) Name(s string) string {
	const least = 8
	spans := r.find(s)
	for _, v := range r.values().plain {
		if len(v) <= least {
			continue
		}
		for from := 0; ; {
			i := strings.Index(s[from:], v[:least])
			if i < 0 {
				break
			}
			from += i
			n := least
			for n < len(v) && from+n < len(s) && s[from+n] == v[n] {
				n++
			}
			spans = append(spans, Span{from, from + n, "secret"})
			from += n
		}
	}
	var b strings.Builder
	render(&b, s, 0, len(s), merge(spans))
	return b.String()
}

// Within returns p[from:to] as a part of p: a secret that lies across one of
// the two borders is masked as if all of it were there.
func (r *Redactor) Within(p []byte, from, to int) []byte {
	return r.Ranges(p, [][2]int{{from, to}})[0]
}

// Ranges does what Within does for several parts, each from [0] to [1] and none
// before the one that precedes it, and looks at p but once.
func (r *Redactor) Ranges(p []byte, ranges [][2]int) [][]byte {
	s := string(p)
	spans := r.find(s)
	parts := make([][]byte, len(ranges))
	for i, x := range ranges {
		for len(spans) > 0 && spans[0].To <= x[0] {
			spans = spans[1:]
		}
		var b bytes.Buffer
		render(&b, s, x[0], x[1], spans)
		parts[i] = b.Bytes()
	}
	return parts
}

// Find returns where the secrets of p are, in order, none over another.
func (r *Redactor) Find(p []byte) []Span { return r.find(string(p)) }

// A Span is a secret within a text.
type Span struct {
	From, To int
	Kind     string
}

// Mask is what is shown in its place.
func (s Span) Mask() string { return maskStart + s.Kind + "›" }

// MayMask reports whether a text can be a part of a mask, or go beyond the end of
// one.
func MayMask(text string) bool {
	return strings.ContainsAny(text, "‹›") || slices.ContainsFunc(kinds, func(kind string) bool { return strings.Contains(kind, text) })
}

// kinds are those of all masks.
var kinds = func() []string {
	list := []string{"secret", "password", "token", "authorization", "bearer token", "jwt", privateKey}
	for _, of := range forms {
		for _, f := range of {
			list = append(list, f.kind)
		}
	}
	return list
}()

type stringWriter interface{ WriteString(string) (int, error) }

func render(w stringWriter, s string, from, to int, spans []Span) {
	for _, x := range spans {
		if x.From >= to {
			break
		}
		if x.To <= from {
			continue
		}
		if x.From > from {
			w.WriteString(s[from:x.From])
		}
		w.WriteString(x.Mask())
		from = min(x.To, to)
	}
	w.WriteString(s[from:to])
}

// maskStart begins a mask. No form has it in it, so that a mask is no secret.
const maskStart = "‹"

// find returns the secrets of s in order, none over another. Colour codes and
// control characters can stand within a secret, and what looks like one can be
// the beginning of a secret: so both texts are searched, with them and without.
func (r *Redactor) find(s string) []Span {
	spans := r.scan(s, nil)
	if clean, seams := strip(s); seams != nil {
		for _, x := range r.scan(clean, nil) {
			spans = append(spans, Span{rawAt(seams, x.From), rawAt(seams, x.To-1) + 1, x.Kind})
		}
	}
	return merge(spans)
}

func (r *Redactor) scan(s string, spans []Span) []Span {
	spans = r.values().find(s, spans)
	x := scanner{s: s, spans: spans}
	x.scan()
	return x.spans
}

func merge(spans []Span) []Span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(a.From-b.From, b.To-a.To)
	})
	merged := spans[:1]
	for _, x := range spans[1:] {
		last := &merged[len(merged)-1]
		if x.From >= last.To {
			merged = append(merged, x)
			continue
		}
		last.To = max(last.To, x.To)
	}
	return merged
}
