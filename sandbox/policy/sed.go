package policy

import "strings"

// harmlessSed reports whether a script has only commands that print, delete,
// add, substitute and quit. It reads only what every sed reads alike.
func harmlessSed(script string) bool {
	s := sedScript{script}
	for {
		s.skip(" \t;\n")
		if s.rest == "" {
			return true
		}
		if !s.address() || !s.command() {
			return false
		}
		s.skip(" \t")
		if s.rest != "" && s.rest[0] != ';' && s.rest[0] != '\n' {
			return false
		}
	}
}

// A sedScript is what is left to read of a script.
type sedScript struct{ rest string }

func (s *sedScript) skip(set string) { s.rest = strings.TrimLeft(s.rest, set) }

func (s *sedScript) take(prefix string) (ok bool) {
	s.rest, ok = strings.CutPrefix(s.rest, prefix)
	return ok
}

// address reads what stands before a command; it may be nothing.
func (s *sedScript) address() bool {
	if !s.line() {
		return false
	}
	s.skip(" \t")
	if s.take(",") {
		s.skip(" \t")
		if !s.take("+") {
			s.take("~")
		}
		if !s.line() {
			return false
		}
	}
	s.skip(" \t!")
	return true
}

// line reads a line's number, $, or a pattern.
func (s *sedScript) line() bool {
	switch {
	case s.take("$"):
	case s.take("/"):
		if !s.pattern('/') {
			return false
		}
		s.take("I")
	default:
		s.skip(digits)
		if s.take("~") {
			s.skip(digits)
		}
	}
	return true
}

func (s *sedScript) command() bool {
	switch {
	case s.take("p"), s.take("d"), s.take("="):
		return true
	case s.take("q"):
		s.skip(" \t")
		s.skip(digits)
		return true
	case s.take("s"):
		return s.substitute()
	case s.take("y"):
		return s.transliterate()
	case s.rest != "" && strings.IndexByte("nNhHgGxDP", s.rest[0]) >= 0:
		s.rest = s.rest[1:]
		return true
	case s.take("a"), s.take("i"), s.take("c"):
		return s.textLine()
	}
	return false
}

// textLine reads a text that is the rest of the line. A backslash in it could take
// more lines, or those of another script.
func (s *sedScript) textLine() bool {
	text, _, _ := strings.Cut(s.rest, "\n")
	s.rest = s.rest[len(text):]
	return strings.HasPrefix(text, " ") && strings.TrimSpace(text) != "" && !strings.Contains(text, `\`)
}

func (s *sedScript) transliterate() bool {
	if s.rest == "" || strings.IndexByte("/|,:#@!%+_~=-", s.rest[0]) < 0 {
		return false
	}
	mark := s.rest[0]
	s.rest = s.rest[1:]
	from := s.text(mark)
	return from && s.text(mark)
}

func (s *sedScript) substitute() bool {
	if s.rest == "" {
		return false
	}
	mark := s.rest[0]
	if strings.IndexByte("/|,:#@!%+_~=-", mark) < 0 {
		return false
	}
	s.rest = s.rest[1:]
	if !s.pattern(mark) || !s.text(mark) {
		return false
	}
	s.skip("gpIi" + digits)
	return true
}

// pattern reads a regular expression and the mark that ends it. Some seds take
// a mark within brackets for a character and others for the end, so a bracket
// that is open there is refused.
func (s *sedScript) pattern(mark byte) bool {
	all := s.rest
	if !s.text(mark) {
		return false
	}
	return bracketsClose(all[:len(all)-len(s.rest)-1])
}

// text reads up to the mark. The escapes that stand for a character by its
// number are refused: some seds put that in before they look for the mark.
func (s *sedScript) text(mark byte) bool {
	for i := 0; i < len(s.rest); i++ {
		switch s.rest[i] {
		case mark:
			s.rest = s.rest[i+1:]
			return true
		case '\n':
			return false
		case '\\':
			if i++; i == len(s.rest) || strings.IndexByte("cdox\n", s.rest[i]) >= 0 {
				return false
			}
		}
	}
	return false
}

func bracketsClose(re string) bool {
	for i := 0; i < len(re); i++ {
		switch re[i] {
		case '\\':
			i++
		case '[':
			n := bracketLength(re[i+1:])
			if n < 0 {
				return false
			}
			i += n
		}
	}
	return true
}

// bracketLength returns how much there is behind a [ up to its ], and -1 if
// none ends it for certain. A ] that comes first is a character; one behind a
// backslash is for some.
func bracketLength(re string) int {
	body := strings.TrimPrefix(re, "^")
	body = strings.TrimPrefix(body, "]")
	for {
		end := strings.IndexAny(body, `]\[`)
		switch {
		case end < 0 || strings.HasPrefix(body[end:], `\]`):
			return -1
		case body[end] == ']':
			return len(re) - len(body) + end + 1
		case body[end] == '\\':
			body = body[min(end+2, len(body)):]
			continue
		}
		class, rest, ok := strings.Cut(body[end+1:], ":]")
		if !ok || !strings.HasPrefix(class, ":") || strings.Trim(class[1:], "abcdefghijklmnopqrstuvwxyz") != "" {
			return -1
		}
		body = rest
	}
}
