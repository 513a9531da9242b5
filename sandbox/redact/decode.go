package redact

import (
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A decoder decodes the escape at the beginning of s and appends the result to text.
// It returns the length of the escape, or 0 if there is none.
type decoder func(text []byte, s string) ([]byte, int)

// An escaping is a way to write special characters.
type escaping struct {
	mark   byte // each escape begins with it
	decode decoder
	base64 []string // the escapes of line ends and of signs within base64 begin with one of them
}

// inBase64 reports whether s can contain base64 with escapes of this kind.
func (x escaping) inBase64(s string) bool {
	return slices.ContainsFunc(x.base64, func(escape string) bool { return strings.Contains(s, escape) })
}

// escapings are decoded one after the other, in any order: JSON contains shell
// commands, and a shell trace quotes their quotes again.
var escapings = []escaping{
	{'%', percent, []string{"%0", "%2"}},
	{'\\', backslash, []string{`\n`, `\/`, `\u00`, `\x`}},
	{'\'', singleQuote, nil},
	{'&', entity, []string{"&#"}},
}

// unescape decodes the escapes of s, which begin with a mark. If there are none, it
// returns no seams. It omits an escape that the end of s cuts off.
func unescape(s string, mark byte, decode decoder) (text string, seams []seam) {
	i := strings.IndexByte(s, mark)
	if i < 0 {
		return "", nil
	}
	out := make([]byte, 0, len(s))
	seams = []seam{{}}
	any := false
	for from := 0; ; {
		out = append(out, s[from:i]...)
		if i == len(s) {
			break
		}
		next, n := decode(out, s[i:])
		if n == 0 {
			next, n = append(out, s[i]), 1
		} else {
			any = true
		}
		out, from = next, i+n
		if last := &seams[len(seams)-1]; last.clean == len(out) {
			last.raw = from
		} else if last.raw-last.clean != from-len(out) {
			seams = append(seams, seam{len(out), from})
		}
		if k := strings.IndexByte(s[from:], mark); k >= 0 {
			i = from + k
		} else {
			i = len(s)
		}
	}
	if !any {
		return "", nil
	}
	return string(out), seams
}

// percent decodes the %2F of URLs.
func percent(text []byte, s string) ([]byte, int) {
	if len(s) < 3 {
		return text, len(s)
	}
	if c, ok := hex(s[1:3]); ok {
		return append(text, byte(c)), 3
	}
	return text, 0
}

// backslash decodes the escapes of JSON, of shells and of most languages.
func backslash(text []byte, s string) ([]byte, int) {
	if len(s) < 2 {
		return text, len(s)
	}
	switch c := s[1]; c {
	case 'u':
		return unicodeEscape(text, s)
	case 'U':
		return sized(text, s, 8, 16)
	case 'x':
		return sized(text, s, 2, 16)
	case '0', '1', '2', '3':
		return sized(text, s, 3, 8)
	default:
		if i := strings.IndexByte("abtnvfreE", c); i >= 0 {
			return append(text, "\a\b\t\n\v\f\r\x1b\x1b"[i]), 2
		}
		return append(text, c), 2
	}
}

// sized decodes an escape with a fixed number of digits.
func sized(text []byte, s string, digits, base int) ([]byte, int) {
	from := 2
	if base == 8 {
		from = 1
	}
	if len(s) < from+digits {
		return text, len(s)
	}
	n, err := strconv.ParseUint(s[from:from+digits], base, 32)
	switch {
	case err != nil:
		return append(text, s[1]), 2
	case digits == 8:
		return utf8.AppendRune(text, rune(n)), from + digits
	}
	return append(text, byte(n)), from + digits
}

// unicodeEscape decodes \u00e4, the two halves of \ud83d\ude00, and \u{1f600}.
func unicodeEscape(text []byte, s string) ([]byte, int) {
	if len(s) > 2 && s[2] == '{' {
		digits, _, closed := strings.Cut(s[3:min(len(s), 12)], "}")
		if n, ok := hex(digits); closed && ok {
			return utf8.AppendRune(text, rune(n)), len(digits) + 4
		}
		return append(text, 'u'), 2
	}
	if len(s) < 6 {
		return text, len(s)
	}
	n, ok := hex(s[2:6])
	if !ok {
		return append(text, 'u'), 2
	}
	if !utf16.IsSurrogate(rune(n)) {
		return utf8.AppendRune(text, rune(n)), 6
	}
	other := s[6:min(len(s), 12)]
	if len(other) < 6 && (strings.HasPrefix(other, `\u`) || strings.HasPrefix(`\u`, other)) {
		return text, len(s)
	}
	if low, ok := hex(strings.TrimPrefix(other, `\u`)); ok {
		if r := utf16.DecodeRune(rune(n), rune(low)); r != utf8.RuneError {
			return utf8.AppendRune(text, r), 12
		}
	}
	return utf8.AppendRune(text, utf8.RuneError), 6
}

func hex(digits string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(digits, 16, 32)
	return n, err == nil
}

// singleQuote decodes the single quote within single quotes of shells.
func singleQuote(text []byte, s string) ([]byte, int) {
	for _, q := range []string{`'\''`, `'"'"'`} {
		if strings.HasPrefix(s, q) {
			return append(text, '\''), len(q)
		}
		if len(s) > 1 && strings.HasPrefix(q, s) {
			return text, len(s)
		}
	}
	return text, 0
}

// entity decodes the &quot; and &#39; of HTML and XML.
func entity(text []byte, s string) ([]byte, int) {
	const most = 10 // &#x10ffff;
	name, _, closed := strings.Cut(s[:min(len(s), most)], ";")
	if !closed {
		return text, 0
	}
	plain := html.UnescapeString(name + ";")
	if plain == name+";" {
		return text, 0
	}
	return append(text, plain...), len(name) + 1
}
