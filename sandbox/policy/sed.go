package policy

import "strings"

// harmlessSed reports whether a script only prints, deletes, adds and substitutes
// text, and quits. It accepts only syntax that every sed reads in the same way.
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

// A sedScript is the unread rest of a script.
type sedScript struct{ rest string }

func (s *sedScript) skip(set string) { s.rest = strings.TrimLeft(s.rest, set) }

func (s *sedScript) accept(prefix string) (ok bool) {
	s.rest, ok = strings.CutPrefix(s.rest, prefix)
	return ok
}

// address reads the address of a command, which may be empty.
func (s *sedScript) address() bool {
	if !s.line() {
		return false
	}
	s.skip(" \t")
	if s.accept(",") {
		s.skip(" \t")
		if !s.accept("+") {
			s.accept("~")
		}
		if !s.line() {
			return false
		}
	}
	s.skip(" \t!")
	return true
}

// line reads a line number, $, or a pattern.
func (s *sedScript) line() bool {
	switch {
	case s.accept("$"):
	case s.accept("/"):
		if !s.pattern('/') {
			return false
		}
		s.accept("I")
	default:
		s.skip(digits)
		if s.accept("~") {
			s.skip(digits)
		}
	}
	return true
}

func (s *sedScript) command() bool {
	switch {
	case s.accept("p"), s.accept("d"), s.accept("="):
		return true
	case s.accept("q"):
		s.skip(" \t")
		s.skip(digits)
		return true
	case s.accept("s"):
		return s.substitute()
	case s.accept("y"):
		return s.transliterate()
	case s.rest != "" && strings.IndexByte("nNhHgGxDP", s.rest[0]) >= 0:
		s.rest = s.rest[1:]
		return true
	case s.accept("a"), s.accept("i"), s.accept("c"):
		return s.textLine()
	}
	return false
}

// textLine reads the text of a, i or c, which is the rest of the line. A backslash
// in it could continue the text with more lines, or with those of another script.
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

// pattern reads a regular expression and the mark that ends it. A mark within
// brackets is a character for some seds and the end for others, so an open bracket
// before the mark is refused.
func (s *sedScript) pattern(mark byte) bool {
	all := s.rest
	if !s.text(mark) {
		return false
	}
	return bracketsClose(all[:len(all)-len(s.rest)-1])
}

// text reads up to the mark. Escapes for a character by its number are refused: some
// seds replace them before they search for the mark.
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

// bracketLength returns the number of bytes after a [ up to and including its ], or
// -1 if the end is uncertain. A ] that comes first is a character; after a backslash
// it is one for some seds.
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
