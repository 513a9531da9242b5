package hostcode

import "strings"

// A setting is one setting of a file. Its key is "section.name" or
// "section.subsection.name", in lower case except for the subsection.
type setting struct{ section, sub, name, value string }

// parse parses a file of git's settings. Text that git would refuse is parsed as far as
// possible: an invalid line must not hide those after it.
func parse(text string) (list []setting) {
	p := &parser{text: text}
	var section, sub string
	for !p.end() {
		switch c := p.next(); {
		case c == '[':
			section, sub = p.header()
		case c == '#' || c == ';':
			p.line()
		case isLetter(c):
			p.at--
			name := strings.ToLower(p.word())
			list = append(list, setting{section, sub, name, p.value()})
		}
	}
	return list
}

// A parser is a position in a text.
type parser struct {
	text string
	at   int
}

func (p *parser) end() bool { return p.at >= len(p.text) }

// next consumes and returns a byte, 0 at the end.
func (p *parser) next() byte {
	if p.end() {
		return 0
	}
	p.at++
	return p.text[p.at-1]
}

// line skips to the next line.
func (p *parser) line() {
	for !p.end() && p.next() != '\n' {
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// word parses the name of a setting.
func (p *parser) word() string {
	from := p.at
	for !p.end() && (isLetter(p.text[p.at]) || p.text[p.at] >= '0' && p.text[p.at] <= '9' || p.text[p.at] == '-') {
		p.at++
	}
	return p.text[from:p.at]
}

// header parses the text in brackets: [section], [section "sub"] or the old
// [section.sub].
func (p *parser) header() (section, sub string) {
	from := p.at
	for !p.end() && !strings.ContainsRune("]\" \t\n", rune(p.text[p.at])) {
		p.at++
	}
	section = strings.ToLower(p.text[from:p.at])
	section, sub, _ = strings.Cut(section, ".")
	var quoted strings.Builder
	in := false
	for !p.end() {
		switch c := p.next(); {
		case c == '\n':
			return section, sub
		case c == '"':
			if in = !in; !in {
				sub = quoted.String()
			}
		case in && c == '\\':
			quoted.WriteByte(p.next())
		case in:
			quoted.WriteByte(c)
		case c == ']':
			return section, sub
		}
	}
	return section, sub
}

// value parses what follows a name, to the end of its line.
func (p *parser) value() string {
	for !p.end() && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
	if p.end() || p.text[p.at] != '=' {
		return "" // a name alone means true
	}
	for p.at++; !p.end() && (p.text[p.at] == ' ' || p.text[p.at] == '\t'); {
		p.at++
	}
	var b strings.Builder
	in, kept := false, 0
	for !p.end() {
		c := p.next()
		switch {
		case c == '\n':
			return b.String()[:kept]
		case c == '\r' && !p.end() && p.text[p.at] == '\n':
			continue
		case c == '"':
			in = !in
			kept = b.Len()
			continue
		case c == '\\':
			if c = p.escape(); c == 0 {
				continue
			}
			b.WriteByte(c)
			kept = b.Len()
			continue
		case !in && (c == '#' || c == ';'):
			p.line()
			return b.String()[:kept]
		}
		b.WriteByte(c)
		if in || c != ' ' && c != '\t' {
			kept = b.Len()
		}
	}
	return b.String()[:kept]
}

// escape parses what follows a backslash. It returns 0 for a line continuation.
func (p *parser) escape() byte {
	switch c := p.next(); c {
	case '\r':
		if !p.end() && p.text[p.at] == '\n' {
			p.at++
		}
		return 0
	case '\n':
		return 0
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	default:
		return c
	}
}
