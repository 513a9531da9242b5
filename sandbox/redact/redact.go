// Package redact masks secrets in text that is shown to a reader: a reply, a
// summary, a prompt to a model. It finds the values that it is given and the
// well-known forms of keys, tokens, private keys and passwords.
//
// It prevents accidents, such as a test that prints its environment or a key in an
// error message. It does not stop a program that leaks on purpose: compressed or
// reversed text passes. It finds a given value also in base64 and in the escapes of
// JSON, shells, URLs and HTML, which may be nested. If a form is not distinctive, it
// rather shows a weak password than masks commit hashes and names of tests.
//
// The caller must mask a text before it cuts it, since half of a secret has no
// recognizable form. Within and Ranges do both. The raw log must stay unmasked.
package redact

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
)

// MinValue is the minimum length of a value that is masked. Shorter values, such as
// "true", occur in ordinary text.
const MinValue = 6

// A Redactor masks secrets. Its zero value, and a nil one, mask the well-known forms.
// It is safe for concurrent use. Values must not change after the first use.
type Redactor struct {
	Values []string // masked anywhere in a text; values shorter than MinValue are ignored

	once  sync.Once
	known known // the values, and how programs write them
}

// Longest returns the maximum length of a value as programs write it. Base64 and
// escapes turn a byte into at most three ASCII bytes.
func (r *Redactor) Longest() int {
	longest := 0
	if r != nil {
		for _, v := range r.Values {
			longest = max(longest, 3*len(v))
		}
	}
	return longest
}

// Text returns s with each secret replaced by its kind, such as ‹github token›.
// Masking a masked text changes nothing.
func (r *Redactor) Text(s string) string {
	spans := r.find(s)
	if len(spans) == 0 {
		return s
	}
	var b strings.Builder
	render(&b, s, 0, len(s), spans)
	return b.String()
}

// Name masks a short text that may be cut, such as the name of a process, which has
// 15 bytes. It also masks the first eight or more bytes of a value anywhere in s.
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

// Within returns p[from:to] with secrets masked. It also masks the part of a secret
// that crosses one of the two borders.
func (r *Redactor) Within(p []byte, from, to int) []byte {
	return r.Ranges(p, [][2]int{{from, to}})[0]
}

// Ranges does the same as Within for several parts, each from [0] to [1] and in
// order, and searches p only once.
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

// Find returns the secrets of p in order, without overlaps.
func (r *Redactor) Find(p []byte) []Span { return r.find(string(p)) }

// A Span is a secret within a text.
type Span struct {
	From, To int
	Kind     string
}

// Mask returns the text that is shown instead of the secret.
func (s Span) Mask() string { return maskStart + s.Kind + "›" }

// MayMask reports whether a text can overlap a mask.
func MayMask(text string) bool {
	return strings.ContainsAny(text, "‹›") || slices.ContainsFunc(kinds, func(kind string) bool { return strings.Contains(kind, text) })
}

// kinds are the kinds of all masks.
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

// maskStart begins a mask. No form contains it, so a mask is never a secret.
const maskStart = "‹"

// find returns the secrets of s in order, without overlaps. A secret can contain
// colour codes and control characters, and what looks like a code can be the
// beginning of a secret. So find searches the text with the codes and without.
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
