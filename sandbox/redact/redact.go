// Package redact hides secrets in text that goes to a reader: a reply, a
// summary, what is sent to a model. It knows the values that it is given and the
// well-known forms of keys, tokens, private keys and passwords.
//
// It protects against accidents, an environment that a test prints or a key in
// an error message, and not against a program that means to leak: text that is
// encoded or spelt backwards passes. Where a form is not distinctive, it would
// rather show a weak password than hide commit hashes and the names of tests.
//
// The caller masks before it cuts and shows, never afterwards, since half of a
// secret has no form any more: Within and Ranges are made for that. What is to
// stay true, the raw log, must not pass through here.
package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
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
	forms []string // how the values are written in output
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
		for len(spans) > 0 && spans[0].to <= x[0] {
			spans = spans[1:]
		}
		var b bytes.Buffer
		render(&b, s, x[0], x[1], spans)
		parts[i] = b.Bytes()
	}
	return parts
}

// A span is a secret within a text.
type span struct {
	from, to int
	kind     string
}

type stringWriter interface{ WriteString(string) (int, error) }

func render(w stringWriter, s string, from, to int, spans []span) {
	for _, x := range spans {
		if x.from >= to {
			break
		}
		if x.to <= from {
			continue
		}
		if x.from > from {
			w.WriteString(s[from:x.from])
		}
		w.WriteString(maskStart + x.kind + "›")
		from = min(x.to, to)
	}
	w.WriteString(s[from:to])
}

// maskStart begins a mask. No form has it in it, so that a mask is no secret.
const maskStart = "‹"

// find returns the secrets of s in order, none over another. Colour codes and
// control characters can stand within a secret, and what looks like one can be
// the beginning of a secret: so both texts are searched, with them and without.
func (r *Redactor) find(s string) []span {
	spans := r.scan(s, nil)
	if clean, seams := strip(s); seams != nil {
		for _, x := range r.scan(clean, nil) {
			spans = append(spans, span{rawAt(seams, x.from), rawAt(seams, x.to-1) + 1, x.kind})
		}
	}
	return merge(spans)
}

func (r *Redactor) scan(s string, spans []span) []span {
	for _, v := range r.values() {
		spans = appendValue(spans, s, v)
	}
	x := scanner{s: s, spans: spans}
	x.scan()
	return x.spans
}

func merge(spans []span) []span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Or(a.from-b.from, b.to-a.to)
	})
	merged := spans[:1]
	for _, x := range spans[1:] {
		last := &merged[len(merged)-1]
		if x.from >= last.to {
			merged = append(merged, x)
			continue
		}
		last.to = max(last.to, x.to)
	}
	return merged
}

func (r *Redactor) values() []string {
	if r == nil || len(r.Values) == 0 {
		return nil
	}
	r.once.Do(func() {
		for _, v := range r.Values {
			r.forms = appendForms(r.forms, strings.TrimSpace(v))
		}
		slices.Sort(r.forms)
		r.forms = slices.Compact(r.forms)
	})
	return r.forms
}

// appendForms adds the ways in which programs write a value: as it is, in a
// URL, in JSON, and a long one line by line, since many print a prefix before
// each line.
func appendForms(forms []string, v string) []string {
	if len(v) < MinValue {
		return forms
	}
	quoted, _ := json.Marshal(v) // a string has no error
	forms = append(forms, v, url.QueryEscape(v), url.PathEscape(v), string(quoted[1:len(quoted)-1]))
	const minLine = 16
	for line := range strings.Lines(v) {
		if line = strings.TrimSpace(line); len(line) >= minLine {
			forms = append(forms, line)
		}
	}
	return forms
}

// appendValue adds where v stands in s, and its beginning at the end of s:
// the rest of it may just not have been printed yet.
func appendValue(spans []span, s, v string) []span {
	end := 0
	for {
		i := strings.Index(s[end:], v)
		if i < 0 {
			break
		}
		spans = append(spans, span{end + i, end + i + len(v), "secret"})
		end += i + len(v)
	}
	const least, most = 4, 4096
	for n := min(len(v)-1, len(s)-end, most); n >= least; n-- {
		if strings.HasSuffix(s, v[:n]) {
			return append(spans, span{len(s) - n, len(s), "secret"})
		}
	}
	return spans
}
