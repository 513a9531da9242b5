// Package exectag finds <exec COMMAND> tags in the text of a language model, and renders the
// results that are written after them.
//
// The tags and the forms of results are those of llm-runtime's command execution guide, here
// "the guide", which loops without MCP use. The package runs nothing and knows no box. Its
// caller runs the commands, and must have masked the secrets and converted the bytes of a box
// to inert text (package excerpt) before it renders a result. A rendered result has no live tag, neither for the Scanner nor for
// a program that looks for the guide's tags, and no line within it looks like its frame.
package exectag

import (
	"bytes"
	"strings"
)

// maxTag is the maximum size of a tag in bytes. A longer one is text.
const maxTag = 1<<20 + 64

// A Piece is a part of the text. The texts of all pieces together are the text.
type Piece struct {
	Text    string
	Command string // of the live tag that Text is, "" if it has none
}

// A Scanner finds the live tags of a text that arrives in parts. The zero value is ready for
// use. How the text is cut makes no difference to the tags. Text is held back only from the
// "<" of a possible tag, at most to the end of its line.
//
// A tag is "<exec", a blank, a command and ">", within one line. It ends at the first ">"
// outside the quotes of the command that is not a redirection. A ">" is a redirection if more
// text follows it in the line, which does not begin with "<", and
//
//   - a blank or a redirection's ">" is before it: ls > out.txt, ls >>out.txt
//   - "&" is before it and no blank after it: make &>log
//   - a digit after a blank is before it, one of &/>$ or a letter after it, also a blank if
//     the digit is 2, and a ">" follows that ends the tag: make 2>&1, make 2> log
//
// If the quotes do not match and the line ends with ">", the tag ends at the first ">" after
// the open quote, as in the guide; a shell then reports the quote.
//
// A tag is not live, and so is text,
//
//   - in a fenced block, whose fence may follow blanks, list markers and ">", also if the fence
//     is never closed; and in the line of a fence
//   - in inline code, which begins with backticks and ends with as many, or at an empty line
//   - in a quoted line, which begins with ">"
//   - in a result, from its first line (=== EXEC …, === ERROR: …, === FILE: …) to its last one
//     (=== END …), also if the latter never comes; in other lines that begin with ===, and in
//     a line that begins with "Command: ", as a line of an error does
//   - if it is not closed, if it contains another "<exec ", or if its command is empty
//   - after a backslash or another "<".
type Scanner struct {
	pieces []Piece
	text   []byte // not yet a piece
	line   line
	fence  fence // the open one, run 0 if none is
	block  frame // the open result, "" if none is

	code    int  // how many backticks end the inline code, 0 outside it
	ticks   int  // backticks at the end of the text
	escaped bool // the last byte was a backslash that is not escaped itself
	last    byte

	tag tag // the possible one, empty if there is none
}

// Feed adds text and returns what is certain.
func (s *Scanner) Feed(p []byte) []Piece {
	for _, c := range p {
		s.next(c)
	}
	return s.take()
}

// End ends the text and returns the rest of it.
func (s *Scanner) End() []Piece {
	for len(s.tag.text) > 0 { // of which another may follow an end that was in doubt
		s.endTag()
	}
	return s.take()
}

func (s *Scanner) take() []Piece {
	s.flush()
	pieces := s.pieces
	s.pieces = nil
	return pieces
}

// flush makes a piece of the text before a tag.
func (s *Scanner) flush() {
	if len(s.text) > 0 {
		s.pieces = append(s.pieces, Piece{Text: string(s.text)})
		s.text = s.text[:0]
	}
}

func (s *Scanner) next(c byte) {
	if len(s.tag.text) > 0 {
		s.inTag(c)
		return
	}
	if c == '<' {
		s.settleTicks()
		if s.live() {
			s.tag.text = append(s.tag.text, c)
			return
		}
	}
	s.plain(c)
}

// live reports whether a tag may begin at the next byte.
func (s *Scanner) live() bool {
	return s.fence.run == 0 && s.block == "" && s.code == 0 && !s.escaped && s.last != '<' && s.line.live()
}

// plain adds a byte of text.
func (s *Scanner) plain(c byte) {
	s.text = append(s.text, c)
	s.last = c
	if c == '\n' {
		s.endLine()
		return
	}
	s.line.next(c)
	if s.fence.run > 0 || s.block != "" {
		return
	}
	if c == '`' && !s.escaped {
		s.ticks++
		return
	}
	s.settleTicks()
	s.escaped = c == '\\' && !s.escaped && s.code == 0
}

// settleTicks begins or ends inline code at a run of backticks that is over.
func (s *Scanner) settleTicks() {
	switch {
	case s.ticks == 0:
	case s.code == 0:
		s.code = s.ticks
	case s.code == s.ticks:
		s.code = 0
	}
	s.ticks = 0
}

func (s *Scanner) endLine() {
	s.settleTicks()
	l := &s.line
	switch {
	case s.fence.run > 0:
		if l.closes(s.fence) {
			s.fence = fence{}
		}
	case s.block != "":
		if l.ends(s.block) {
			s.block = ""
		}
	default:
		s.fence = l.opens()
		s.block = l.begins()
	}
	if l.text == 0 || s.fence.run > 0 || s.block != "" {
		s.code = 0
	}
	s.line, s.escaped = line{}, false
}

// inTag adds a byte to the possible tag.
func (s *Scanner) inTag(c byte) {
	t := &s.tag
	switch {
	case c == '\n':
		s.endTag()
		s.next(c)
	case len(t.text) < len(opening):
		if opening[len(t.text)] == c {
			t.text = append(t.text, c)
			return
		}
		s.abandon()
		s.next(c)
	case len(t.text) == len(opening):
		if c == ' ' || c == '\t' {
			t.text = append(t.text, c)
			return
		}
		s.abandon()
		s.next(c)
	case len(t.text) >= maxTag:
		s.abandon()
		s.line.dead = true
		s.next(c)
	default:
		if end := t.next(c); end > 0 {
			s.closeTag(end)
		}
	}
}

// endTag ends the possible tag at the end of its line.
func (s *Scanner) endTag() {
	if end := s.tag.atLineEnd(); end > 0 {
		s.closeTag(end)
		return
	}
	s.abandon()
}

// closeTag ends the tag, of which text may follow the first end bytes.
func (s *Scanner) closeTag(end int) {
	t := s.tag
	s.tag = tag{}
	command := string(bytes.TrimSpace(t.text[len(opening) : end-1]))
	if t.nested || command == "" {
		s.write(t.text[:end])
	} else {
		s.flush()
		s.pieces = append(s.pieces, Piece{Text: string(t.text[:end]), Command: command})
		for _, c := range t.text[:end] {
			s.line.next(c)
		}
		s.last, s.escaped = '>', false
	}
	for _, c := range t.text[end:] {
		s.next(c)
	}
}

// abandon makes text of the possible tag.
func (s *Scanner) abandon() {
	text := s.tag.text
	s.tag = tag{}
	s.write(text)
}

// write adds text in which no tag is live.
func (s *Scanner) write(text []byte) {
	for _, c := range text {
		s.plain(c)
	}
}

const opening = "<exec"

// A tag is a possible tag.
type tag struct {
	text    []byte
	quote   byte // that is open: ', " or $ of $'…', 0 if none is
	escaped bool // the last byte was a backslash that escapes the next one
	nested  bool // it contains the beginning of another tag

	redirected bool // it has a redirection for certain

	maybe  int  // where it ends if no text follows, 0 if nowhere
	arrow  byte // what may make the ">" there a redirection: ' ', '1', '2' or '&'
	back   int  // where it ends if no ">" ends it or another tag begins, 0 if nowhere
	quoted int  // where it ends if the open quote is never closed, 0 if nowhere
}

// next adds a byte of the command. It returns the number of bytes at which the tag ends, 0 if it
// does not yet.
func (t *tag) next(c byte) (end int) {
	before := t.text
	t.text = append(t.text, c)
	if t.maybe > 0 {
		if blank(c) && (t.arrow == ' ' || t.arrow == '2') {
			return 0
		}
		if !t.continues(c, blank(before[len(before)-1])) {
			return t.maybe
		}
		if t.arrow == ' ' || t.arrow == '&' {
			t.redirected = true
		} else if t.back == 0 && !t.redirected {
			t.back = t.maybe
		}
		t.maybe = 0
	}
	if blank(c) && bytes.HasSuffix(before, []byte(opening)) {
		if t.back > 0 && !t.nested {
			return t.back
		}
		t.nested = true
	}
	switch {
	case t.escaped:
		t.escaped = false
	case t.quote != 0:
		t.inQuote(c)
	case c == '\\':
		t.escaped = true
	case c == '\'' && before[len(before)-1] == '$':
		t.quote = '$'
	case c == '\'', c == '"':
		t.quote = c
	case c == '>':
		if t.arrow = redirects(before); t.arrow == 0 {
			return len(t.text)
		}
		t.maybe = len(t.text)
	}
	return 0
}

// continues reports whether a byte after the possible end makes the ">" there a redirection.
// apart tells that blanks are between them.
func (t *tag) continues(c byte, apart bool) bool {
	letter := 'a' <= c|' ' && c|' ' <= 'z'
	switch {
	case c == '<':
		return false
	case t.arrow == ' ':
		return true
	case t.arrow == '&':
		return !blank(c)
	case apart:
		return letter || c == '/' || c == '$' || c == '"' || c == '\''
	}
	return letter || strings.IndexByte("&/>$", c) >= 0
}

func (t *tag) inQuote(c byte) {
	switch {
	case c == '>' && t.quoted == 0:
		t.quoted = len(t.text)
	case c == '\\' && t.quote != '\'':
		t.escaped = true
	case c == '"' && t.quote == '"', c == '\'' && t.quote != '"':
		t.quote, t.quoted = 0, 0
	}
}

// redirects returns what makes a ">" after the text of a tag a redirection, 0 if nothing does.
func redirects(before []byte) byte {
	last, previous := before[len(before)-1], before[len(before)-2]
	switch {
	case blank(last):
		return ' '
	case last == '>' && previous != '\\': // the one before it did not end the tag
		return ' '
	case last == '&':
		return '&'
	case last == '2' && blank(previous):
		return '2'
	case '0' <= last && last <= '9' && blank(previous):
		return '1'
	}
	return 0
}

// atLineEnd returns the number of bytes at which the tag ends if its line ends, 0 if it is not
// closed.
func (t *tag) atLineEnd() int {
	switch {
	case t.maybe > 0:
		return t.maybe
	case t.back > 0 && !t.nested:
		return t.back
	case t.quote != 0 && t.quoted > 0 && !t.nested && bytes.HasSuffix(bytes.TrimRight(t.text, " \t\r"), []byte(">")):
		return t.quoted
	}
	return 0
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// A line is what decides whether tags are live in a line and the following ones.
type line struct {
	begun  bool // its beginning is over: blanks, ">" and list markers
	quoted bool // a ">" is in its beginning
	listed bool // a list marker is
	marker byte // '-' or '.' of a list marker that a blank completes, '1' in its digits
	column int
	text   int  // bytes that are not blank
	dead   bool // no tag is live in the rest of it

	mark   byte // that its text begins with: a backtick, "~" or "="
	run    int  // how often
	rest   []byte
	long   bool    // rest is not all that follows
	tail   [4]byte // the last bytes that are not blank
	ticked bool    // a backtick follows
}

// maxRest bounds what is known of a line: its frame is recognised by its beginning.
const maxRest = 64

// live reports whether a tag in the line may be live.
func (l *line) live() bool {
	return !l.quoted && !l.dead && !(l.mark != 0 && l.run >= 3) && string(l.rest) != commandLine
}

// commandLine begins the line of an error that repeats its tag.
const commandLine = "Command: "

func (l *line) next(c byte) {
	if !blank(c) {
		l.text++
		copy(l.tail[:], l.tail[1:])
		l.tail[3] = c
	}
	if !l.begun && l.leads(c) {
		return
	}
	if !l.begun {
		l.begun = true
		if l.marker == 0 && (c == '`' || c == '~' || c == '=') {
			l.mark = c
		}
	}
	switch {
	case l.mark != 0 && c == l.mark && len(l.rest) == 0 && !l.long:
		l.run++
	case len(l.rest) < maxRest:
		l.rest = append(l.rest, c)
	default:
		l.long = true
	}
	l.ticked = l.ticked || c == '`' && len(l.rest) > 0
}

// leads reports whether a byte belongs to the beginning of the line.
func (l *line) leads(c byte) bool {
	l.column++
	if c == '\t' {
		l.column += 3 - (l.column-1)%4
	}
	switch {
	case l.marker != 0 && blank(c):
		if l.marker == '1' {
			return false
		}
		l.marker, l.listed = 0, true
	case l.marker == '1' && '0' <= c && c <= '9':
	case l.marker == '1' && (c == '.' || c == ')'):
		l.marker = '.'
	case l.marker != 0:
		return false
	case blank(c):
	case c == '>':
		l.quoted = true
	case c == '-' || c == '*' || c == '+':
		l.marker = '-'
	case '0' <= c && c <= '9':
		l.marker = '1'
	default:
		l.column--
		return false
	}
	return true
}

// A fence is the first line of a fenced block.
type fence struct {
	mark   byte
	run    int
	column int
	quoted bool
}

// opens returns the fence that the line is, with run 0 if it is none.
func (l *line) opens() fence {
	if l.run < 3 || l.mark == '=' || l.mark == '`' && l.ticked {
		return fence{}
	}
	return fence{l.mark, l.run, l.column, l.quoted}
}

// closes reports whether the line ends a fenced block.
func (l *line) closes(f fence) bool {
	return l.mark == f.mark && l.run >= f.run && !l.long && len(bytes.TrimSpace(l.rest)) == 0 &&
		!l.listed && l.quoted == f.quoted && l.column < f.column+4
}

// A frame is the kind of a result: EXEC, ERROR or FILE, after ">" if it is quoted.
type frame string

// begins returns the result that the line begins, "" if it begins none.
func (l *line) begins() frame {
	if l.mark != '=' || l.run != 3 || !bytes.HasSuffix(l.tail[:], []byte("===")) {
		return ""
	}
	for _, kind := range []string{"EXEC", "ERROR:", "FILE:"} {
		if strings.HasPrefix(string(l.rest), " "+kind+" ") {
			return l.frame(strings.TrimSuffix(kind, ":"))
		}
	}
	return ""
}

// ends reports whether the line ends a result.
func (l *line) ends(f frame) bool {
	words := strings.Fields(string(l.rest))
	return l.mark == '=' && l.run == 3 && !l.long && !l.listed &&
		len(words) == 3 && words[0] == "END" && words[2] == "===" && l.frame(words[1]) == f
}

func (l *line) frame(kind string) frame {
	if l.quoted {
		return frame("> " + kind)
	}
	return frame(kind)
}
