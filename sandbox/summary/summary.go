// Package summary tells in some hundred bytes what matters in a command's
// output: how it ended, what failed, where, and what the tool itself counted.
//
// It knows how tools speak: tables of rules, by family, say which lines begin a
// failure and which of those behind it are its message, its place and its
// values. It reads the output once, while it streams, and holds some two
// megabytes whatever the size. It calls no model, and it judges nothing: the
// verdict is the exit code, and every other word is copied from the output,
// behind the number of the line that it stands on.
//
// The caller writes the whole output, in order, and asks once, at the end.
package summary

import (
	"bytes"
	"strings"
)

// A Summarizer takes output as it streams and tells at the end what matters.
// Make one with New. It is not safe for use by several goroutines at once.
type Summarizer struct {
	options Options

	first   []byte // until it is long enough to tell text from binary
	decided bool
	ended   bool
	bytes   int64
	binary  string // what kind of bytes these are, if they are no text

	mask   masker
	key    keyBlock
	clean  cleaner
	lines  int
	head   []line
	tail   ring
	seen   templates
	finder finder
	json   jsonScan
	list   listing
	same   repeat

	weighed []candidate // once the output has ended
}

// Options say what to summarise, and how short.
type Options struct {
	Cmd    string // the command line; it helps to know lists of files
	Budget int    // of the summary, in bytes; 0 is 800
	Kept   int    // bytes of lines in a Digest; 0 is KeptBytes, which is the most

	// Mask hides secrets in a text; nil hides nothing. It is given lines whole
	// where that is possible, and must leave alone what it has masked. It is
	// called from Write, too. All text that leaves has passed through it; private
	// keys in PEM, of which no line tells that it is a part, are hidden without it.
	Mask func(string) string

	// Longest is how long a secret is at most that Mask knows by more than its
	// characters, in whatever form it is printed. More of very long lines is held
	// for it, up to 32 KiB at each cut.
	Longest int
}

// defaultBudget is about 200 tokens.
const defaultBudget = 800

// minBudget leaves room for the verdict.
const minBudget = 100

// An Exit is how the command ended. Nothing else decides the verdict.
type Exit struct {
	Code     int    // negative where nobody knows it
	Signal   string // that ended it, such as SIGKILL; may be empty
	TimedOut bool
}

// New returns a Summarizer to write to.
func New(o Options) *Summarizer {
	if o.Budget <= 0 {
		o.Budget = defaultBudget
	}
	o.Budget = max(o.Budget, minBudget)
	if o.Kept <= 0 || o.Kept > KeptBytes {
		o.Kept = KeptBytes
	}
	mask := masker{o.Mask, min(max(o.Longest, leastMargin), mostMargin)}
	s := &Summarizer{options: o, mask: mask, seen: newTemplates(mask)}
	s.list.mask, s.json.margin, s.clean.buf.margin = mask, mask.margin, mask.margin
	s.finder.tail = &s.tail
	return s
}

// headLines are kept from the beginning, for outputs that say there what they
// are about.
const headLines = 20

// Write reads a piece of the output. It never fails. After Summary it does
// nothing.
func (s *Summarizer) Write(p []byte) (int, error) {
	n := len(p)
	if s.ended {
		return n, nil
	}
	s.bytes += int64(n)
	if !s.decided {
		room := min(sniffed-len(s.first), len(p))
		s.first = append(s.first, p[:room]...)
		if p = p[room:]; len(s.first) < sniffed {
			return n, nil
		}
		s.decide()
	}
	s.read(p)
	return n, nil
}

// Hidden says that the output has so many bytes more, or fewer, than were
// written: a mask stands for them.
func (s *Summarizer) Hidden(n int) { s.bytes += int64(n) }

// decide tells text from binary by the first bytes, then reads them.
func (s *Summarizer) decide() {
	s.decided = true
	if s.binary = binaryKind(s.first); s.binary == "" {
		s.read(s.first)
	}
	s.first = nil
}

func (s *Summarizer) read(p []byte) {
	if s.binary == "" {
		s.json.read(p)
		s.clean.read(p, s.take, s.again)
	}
}

// take reads one clean line.
func (s *Summarizer) take(text []byte) {
	s.lines++
	if s.same.is(text) {
		s.repeat(text)
		return
	}
	whole := text
	if s.mask.hide != nil {
		text = s.key.hide(text)
	}
	if len(s.head) < headLines {
		s.head = append(s.head, line{s.lines, string(text)})
	}
	set := triggers.in(text)
	loud := set.any()
	t := s.seen.add(s.lines, text, loud)
	if t != nil && (t.hits >= fewHits || t.louds-t.hits >= fewMisses) {
		set = ruleSet{}
	}
	if s.finder.take(s.lines, text, set) && t != nil {
		t.hits++
	}
	s.tail.add(s.lines, text)
	s.list.add(s.lines, text)
	s.same.known = !set.any() && s.finder.open == nil && s.key.left == 0 && len(text) == len(whole) && len(s.head) == headLines
	if s.same.known {
		s.same.note(text, t, loud)
	}
}

// A repeat is the last line, where that line once more would change nothing but
// counts. Some commands print one line a million times, and its summary is not to
// take longer than to print it.
type repeat struct {
	known    bool
	line     []byte
	template *template // nil where there was no room for it
	loud     bool
	plain    bool // it has come twice, and its raw form is this one
}

func (r *repeat) is(text []byte) bool { return r.known && bytes.Equal(r.line, text) }

func (r *repeat) note(text []byte, t *template, loud bool) {
	r.line, r.template, r.loud, r.plain = append(r.line[:0], text...), t, loud, false
}

// repeat takes the last line once more.
func (s *Summarizer) repeat(text []byte) {
	s.same.plain = len(text) <= s.clean.buf.longest() && plain(text)
	s.count(1)
	s.tail.add(s.lines, text)
	s.list.add(s.lines, text)
}

// again takes the last line as often as p begins with it, and returns how many
// bytes that are.
func (s *Summarizer) again(p []byte) int {
	line, n := s.same.line, 0
	if !s.same.known || !s.same.plain {
		return 0
	}
	for rest := p; len(rest) > len(line) && rest[len(line)] == '\n' && bytes.Equal(rest[:len(line)], line); n++ {
		rest = rest[len(line)+1:]
	}
	for i := range n {
		s.lines++
		if n-i <= ringLines {
			s.tail.add(s.lines, line)
		}
		s.list.add(s.lines, line)
	}
	s.count(n)
	return n * (len(line) + 1)
}

// count counts so many repeats, of which the last is the last line.
func (s *Summarizer) count(n int) {
	if t := s.same.template; t != nil && n > 0 {
		t.count += n
		t.last = s.lines
		if s.same.loud {
			t.louds += n
		}
	}
}

// So many loud lines of one template are looked at closely: with a failure in
// them, and without. More of them tell nothing new, and a log made of errors
// must not be slow to read.
const (
	fewHits   = 24
	fewMisses = 100
)

// Summary ends the output and tells what matters of it, in at most Budget
// bytes of valid UTF-8 without control characters. The same output gives the
// same summary in whatever pieces it was written.
func (s *Summarizer) Summary(exit Exit) string {
	s.end()
	verdict := s.verdict(exit)
	if s.binary != "" || s.lines == 0 {
		return verdict
	}
	p := picker{room: s.options.Budget - len(verdict) - len(shownNote), width: wideLine, mask: s.mask}
	if text, ok := p.whole(s); ok {
		return verdict + ":\n" + text
	}
	s.choose(&p, exit)
	return strings.TrimSuffix(verdict+p.note()+"\n"+p.String(), "\n")
}

// end reads what no newline ended. After it, the output is as it is.
func (s *Summarizer) end() {
	if s.ended {
		return
	}
	if !s.decided {
		s.decide()
	}
	s.clean.end(s.take)
	s.finder.end()
	s.ended = true
}
