// Package summary writes a summary of a command's output in a few hundred bytes: how
// the command ended, what failed, where, and what the tool itself counted.
//
// It contains rules for the output formats of tools, in tables by family. They say
// which lines begin a failure, and which of the lines after it are its message, its
// place and its values. The package reads the output once, while it streams, and uses
// about two megabytes of memory for output of any size. It calls no model and draws
// no conclusions: the verdict is the exit code, and all other text is copied from the
// output, each line after its number.
//
// The caller must write the whole output, in order, and call Summary or Digest at the
// end.
package summary

import (
	"bytes"
	"strings"
)

// A Summarizer reads output while it streams and summarizes it at the end. Create one
// with New. It is not safe for concurrent use.
type Summarizer struct {
	options Options

	first   []byte // the beginning, until it is long enough to tell text from binary
	decided bool
	ended   bool
	bytes   int64
	binary  string // the kind of binary data; "" for text

	mask   masker
	key    keyBlock
	clean  cleaner
	lines  int
	head   []line
	tail   ring
	seen   templates
	nearby nearby
	finder finder
	json   jsonScan
	list   listing
	same   repeat
	want   *want // nil: the caller looks for nothing

	triggers *triggerSet

	weighed []candidate // set once the output has ended
	ranked  []*failure  // as weighed
	picked  []int       // the lines in the summary, the most important first
}

// Options configure a Summarizer.
type Options struct {
	Cmd    string // the command line; it identifies lists of files
	Want   string // what the caller looks for: words, paths, names; lines with them rank before others
	Budget int    // maximum size of the summary in bytes; 0: 800
	Kept   int    // maximum bytes of lines in a Digest; 0 or more than KeptBytes: KeptBytes

	// Mask masks the secrets of a text; nil masks nothing. It gets complete lines if
	// possible, and must not change masked text. Write may call it too. All text that
	// leaves the package has passed through it. Private keys in PEM are hidden without
	// it, since a single line of a key has no recognizable form.
	Mask func(string) string

	// Longest is the maximum length, in any printed form, of the secrets that Mask
	// cannot recognize by their characters. The Summarizer retains that much more at
	// each cut of a very long line, up to 32 KiB.
	Longest int
}

// defaultBudget is about 200 tokens.
const defaultBudget = 800

// minBudget leaves room for the verdict.
const minBudget = 100

// An Exit is how the command ended. It alone decides the verdict.
type Exit struct {
	Code     int    // negative: unknown
	Signal   string // the signal that ended it, such as SIGKILL; may be empty
	TimedOut bool
}

// New returns a Summarizer.
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
	if s.triggers = triggers; o.Want != "" {
		if s.want = newWant(o.Want); s.want != nil {
			s.triggers = s.want.triggers
		}
	}
	return s
}

// headLines is the number of lines retained from the beginning, where some outputs
// say what they are about.
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

// Hidden corrects the size of the output by n bytes, if a mask was written instead of
// a secret.
func (s *Summarizer) Hidden(n int) { s.bytes += int64(n) }

// decide distinguishes text from binary data by the first bytes, and reads them.
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
		s.clean.read(p, s.readLine, s.again)
	}
}

// readLine reads one clean line.
func (s *Summarizer) readLine(text []byte) {
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
	set, wanted := s.triggers.in(text).split()
	loud := set.any()
	t := s.seen.add(s.lines, text, loud)
	if t != nil && (t.hits >= fewHits || t.louds-t.hits >= fewMisses) {
		set = ruleSet{}
	}
	if s.finder.read(s.lines, text, set) && t != nil {
		t.hits++
	}
	if wanted {
		s.want.add(s.lines, text, t, s.mask)
	}
	s.nearby.add(s.lines, text, t, set.troubled() && t != nil && t.first == s.lines, &s.tail, s.mask)
	s.tail.add(s.lines, text)
	s.list.add(s.lines, text)
	s.same.known = !wanted && !set.any() && s.finder.open == nil && s.nearby.left == 0 && s.key.left == 0 && len(text) == len(whole) && len(s.head) == headLines
	if s.same.known {
		s.same.record(text, t, loud)
	}
}

// A repeat is the last line, if another copy of it changes only counts. Some commands
// print one line a million times, and to summarize it must not take longer than to
// print it.
type repeat struct {
	known    bool
	line     []byte
	template *template // nil: the line is not counted
	loud     bool
	plain    bool // the line came twice, and its raw form is the same
}

func (r *repeat) is(text []byte) bool { return r.known && bytes.Equal(r.line, text) }

func (r *repeat) record(text []byte, t *template, loud bool) {
	r.line, r.template, r.loud, r.plain = append(r.line[:0], text...), t, loud, false
}

// repeat reads another copy of the last line.
func (s *Summarizer) repeat(text []byte) {
	s.same.plain = len(text) <= s.clean.buf.longest() && plain(text)
	s.count(1)
	s.tail.add(s.lines, text)
	s.list.add(s.lines, text)
}

// again reads all copies of the last line at the beginning of p, and returns their
// size.
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

// count counts n repeats, the last of which is the current line.
func (s *Summarizer) count(n int) {
	if t := s.same.template; t != nil && n > 0 {
		t.count += n
		t.last = s.lines
		if len(t.final) == 0 && t.hits == 0 {
			t.setFinal(s.same.line)
		}
		if s.same.loud {
			t.louds += n
		}
	}
}

// fewHits and fewMisses bound the loud lines of one template that are examined: those
// with a failure in them and those without. More of them add nothing, and a log full
// of errors must not be slow to read.
const (
	fewHits   = 24
	fewMisses = 100
)

// Summary ends the output and returns its summary, at most Budget bytes of valid
// UTF-8 without control characters. It does not depend on the pieces in which the
// output was written.
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
	s.picked = p.numbers()
	return strings.TrimSuffix(verdict+p.countShown()+"\n"+p.String(), "\n")
}

// end reads an incomplete last line and ends the output.
func (s *Summarizer) end() {
	if s.ended {
		return
	}
	if !s.decided {
		s.decide()
	}
	s.clean.end(s.readLine)
	s.finder.end()
	s.ended = true
}
