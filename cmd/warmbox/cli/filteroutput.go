package cli

import (
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"
)

// A filterOutput is what a filter writes. Each call writes at once.
type filterOutput interface {
	text(part string) error
	result(filterResult) error
	end() error // of the text
}

func newFilterOutput(w io.Writer, textOnly, asJSON bool) (filterOutput, error) {
	switch {
	case textOnly && asJSON:
		return nil, Usagef("filter accepts --text-only or --json, not both")
	case textOnly:
		return &resultsOutput{w}, nil
	case asJSON:
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return &jsonOutput{enc: enc}, nil
	}
	return &textOutput{w: w}, nil
}

// A textOutput writes the text with the results.
type textOutput struct {
	w     io.Writer
	below bool // a result was written last, whose end is that of a line
}

// text writes a part of the text. A newline directly after a tag is the one at the end of its
// result.
func (o *textOutput) text(part string) error {
	if o.below {
		part = strings.TrimPrefix(part, "\n")
		o.below = false
	}
	return write(o.w, part)
}

func (o *textOutput) result(r filterResult) error {
	o.below = true
	return write(o.w, "\n"+r.block())
}

func (o *textOutput) end() error { return nil }

// A resultsOutput writes the results alone.
type resultsOutput struct{ w io.Writer }

func (o *resultsOutput) text(string) error           { return nil }
func (o *resultsOutput) result(r filterResult) error { return write(o.w, r.block()) }
func (o *resultsOutput) end() error                  { return nil }

// A jsonOutput writes a line of JSON for each part of the text and each result. The parts of the
// text together are the text.
type jsonOutput struct {
	enc  *json.Encoder
	rest string // the first bytes of a character
}

func (o *jsonOutput) text(part string) error {
	part = o.rest + part
	whole := wholeRunes(part)
	o.rest = part[whole:]
	return o.write(part[:whole])
}

func (o *jsonOutput) write(text string) error {
	if text == "" {
		return nil
	}
	return o.enc.Encode(struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	}{"text", text})
}

func (o *jsonOutput) result(r filterResult) error { return o.enc.Encode(r.safe()) }
func (o *jsonOutput) end() error                  { return o.write(o.rest) }

// wholeRunes returns the size of a text without the first bytes of a character at its end.
func wholeRunes(text string) int {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRuneInString(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

func write(w io.Writer, text string) error {
	if text == "" {
		return nil
	}
	_, err := io.WriteString(w, text)
	return err
}
