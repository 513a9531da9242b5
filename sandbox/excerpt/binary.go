package excerpt

import (
	"bytes"
	"unicode/utf8"
)

// maxText is how many bytes of text are shown before and after binary data.
const maxText = 1000

// Binary returns the excerpt of a stream that is binary data of a kind. It shows none of the data.
// If the data has no form of its own, text may surround it, as the headers of a reply surround
// its body: the first and the last lines are then shown as far as they are text.
func (k *Keeper) Binary(kind string, surrounded bool) Excerpt {
	k = k.settled()
	e := Excerpt{Bytes: k.total, Lines: k.Lines(), OmittedBytes: k.total, Binary: kind} // data overwrites nothing
	if !surrounded {
		return e
	}
	before, after := k.sides()
	head := textHead(before)
	rest := after
	if _, whole := k.whole(); whole {
		rest = after[len(head):]
	}
	tail := textTail(rest)
	if len(head)+len(tail) == 0 {
		return e
	}
	e.OmittedBytes -= int64(len(head) + len(tail))
	mark := markBegin + " " + Count(e.OmittedBytes, "byte") + " of binary data left out …]\n"
	e.Text = Guard(k.show(before, 0, len(head))) + mark + Guard(k.show(after, len(after)-len(tail), len(after)))
	return e
}

// textHead returns the first lines of p that are text.
func textHead(p []byte) []byte {
	n := 0
	for line := range bytes.Lines(p[:min(len(p), maxText)]) {
		if !isText(line) || line[len(line)-1] != '\n' {
			break
		}
		n += len(line)
	}
	return p[:n]
}

// textTail returns the last lines of p that are text.
func textTail(p []byte) []byte {
	from := len(p)
	for from > 0 {
		begin := 1 + bytes.LastIndexByte(p[:from-1], '\n')
		if len(p)-begin > maxText || begin == 0 || !isText(p[begin:from]) {
			break
		}
		from = begin
	}
	return p[from:]
}

// isText reports whether a line has nothing but characters that text uses.
func isText(line []byte) bool {
	for _, c := range line {
		if c < ' ' && c != '\t' && c != '\r' && c != '\n' || c == 0x7f {
			return false
		}
	}
	return utf8.Valid(line)
}
