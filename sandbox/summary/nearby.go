package summary

import "strings"

// A nearby store holds the lines after those that may begin a failure: most tools print
// a title and its message below it, also those that no rule knows.
type nearby struct {
	lines    ends
	left     int          // lines that still belong to the last title
	headings map[int]line // by the number of the title
}

const (
	nearReach  = 12 // lines after a title
	nearFirst  = 1200
	nearLast   = 600
	nearLine   = 240 // bytes of a line
	nearBack   = 40  // lines before a title in which its heading is
	nearPlace  = 5   // of these the ones in which a path at the title's depth is
	mostHeaded = 400
)

// add stores a line if it is close to a title. tail has the lines before it.
func (b *nearby) add(n int, text []byte, t *template, opens bool, tail *ring, mask masker) {
	if opens {
		b.left = nearReach + 1
		b.head(n, text, tail, mask)
	}
	if b.left == 0 {
		return
	}
	b.left--
	l := line{n: n}
	if t != nil && t.first == n {
		l.text = t.sample
	} else {
		l.text = mask.sample(text, nearLine)
	}
	b.lines.add(l, nearFirst, nearLast)
}

// head stores the heading of a title: the last line before it that is indented less, or
// the path close before it, with no more than empty lines and code between them.
func (b *nearby) head(n int, text []byte, tail *ring, mask masker) {
	if len(b.headings) >= mostHeaded {
		return
	}
	depth, blank, apart := indent(text), false, false
	for i := n - 1; i >= max(tail.from(), n-nearBack); i-- {
		above := tail.texts[i%ringLines]
		if len(above) == 0 {
			if n-i > nearPlace {
				return
			}
			blank = blank || i < n-1
			continue
		}
		d := indent(above)
		if d < depth && !blank || n-i <= nearPlace && d == depth && !apart && pathOnly().Match(above) {
			if b.headings == nil {
				b.headings = make(map[int]line)
			}
			b.headings[n] = line{i, mask.sample(above, nearLine)}
			return
		}
		apart = apart || d <= depth
	}
}

// pathOnly matches a line that is a path, possibly with a line number.
var pathOnly = re(`^\s*(?:[\w.@~-]*/)*[\w.@-]+\.\w{1,6}(?::\d+)*:? *$`)

func indent(text []byte) int {
	for i, b := range text {
		if b != ' ' && b != '\t' {
			return i
		}
	}
	return 0
}

// around returns the parts of a failure that its title does not have: the lines below
// it that look like its message, its place and its values, and its heading. It also
// returns the severity that one of them states, or 0.
func (s *Summarizer) around(title line) ([]piece, severity) {
	b := below{summary: s, title: title, text: unwrapped(beginning(title.text, maxRuleText))}
	b.bare = bareTitle().MatchString(b.text)
	b.severe = severityOf(strings.ToLower(b.text)) == severe
	b.hasPlace = placed().MatchString(b.text)
	if h, ok := s.nearby.headings[title.n]; ok {
		b.heading(h)
	}
	for n := title.n + 1; n <= title.n+nearReach && b.add(n); n++ {
	}
	return b.parts, b.rated
}

// A below collects the lines below a title.
type below struct {
	summary  *Summarizer
	title    line
	text     string
	bare     bool // the title has no message
	severe   bool // of a crash; its report follows
	hasPlace bool
	label    int  // lines that still belong to a label such as "got:"
	gap      bool // there was an empty line
	messages int
	details  int
	skipped  int
	rated    severity
	parts    []piece
}

const (
	mostMessages = 2
	mostReport   = 4 // of a crash
	mostDetails  = 6
	mostSkipped  = 2
)

func (b *below) heading(h line) {
	switch {
	case pathOnly().MatchString(h.text):
		if !b.hasPlace {
			b.parts, b.hasPlace = append(b.parts, piece{h, place}), true
		}
	case b.bare || fieldTitle().MatchString(b.text):
		b.parts = append(b.parts, piece{h, message})
	}
}

// add adds a line, and reports whether the next one may also belong to the title.
func (b *below) add(n int) bool {
	l, ok := b.summary.nearby.lines.at(n)
	if !ok {
		return false
	}
	text := unwrapped(l.text)
	lower := strings.ToLower(text)
	if m := rating.find(text, lower); m != nil {
		b.rated = ratings[strings.ToLower(m[1])]
	}
	switch {
	case !worded().MatchString(text):
		if ruler().MatchString(text) {
			return false
		}
		if b.label > 0 || b.bare && n == b.title.n+1 || signOnly().MatchString(text) {
			return true
		}
		b.gap = true
		return len(b.parts) == 0 || b.details == 0 && !b.gap
	case passes(text, lower) || quietLevel.in(text, lower) && !strings.Contains(lower, "note: "):
		return false
	case b.label > 0:
		b.label--
		b.detail(l)
	case expectation.in(text, lower):
		b.detail(l)
		if labelOnly().MatchString(text) {
			b.label = 2
		}
	case b.hasPlace && placedTitle().MatchString(b.text) && placedTitle().MatchString(text):
		return false // the next finding
	case placed().MatchString(text):
		if !b.hasPlace && isOwn(text) {
			b.parts, b.hasPlace = append(b.parts, piece{l, place}), true
		}
	case codeLine().MatchString(text) || isNoise(text, lower) || libraryFrame(text):
	case b.belongs(text, l):
		if b.messages++; b.messages > mostMessages && !(b.severe && b.messages <= mostReport) {
			return true
		}
		r := aside
		if b.bare && b.messages == 1 {
			r = message
		}
		b.parts = append(b.parts, piece{l, r})
	default:
		b.skipped++
		return b.skipped <= mostSkipped && !b.gap
	}
	return true
}

// belongs reports whether a line without a form of its own is part of the message.
func (b *below) belongs(text string, l line) bool {
	if t := b.summary.seen.of(l.text); t != nil && t.count > 3 {
		return false
	}
	return b.bare && b.messages == 0 || indent([]byte(text)) > indent([]byte(b.text)) || (b.bare || b.severe) && !b.gap
}

func (b *below) detail(l line) {
	if b.details++; b.details <= mostDetails {
		b.parts = append(b.parts, piece{l, detail})
	}
}

var ratings = map[string]severity{"critical": severe, "high": severe, "medium": bad, "moderate": bad, "low": suspect, "info": suspect}

var (
	// bareTitle matches a title without a message: it ends in a colon, is a heading
	// between rulers, or has hardly more than a word of failure and a name.
	bareTitle = re(`[:{(]\s*$|[=═─━*#_-]{3,}\s*$|^\W*(?i:fail(?:ed|ures?)?|errors?|exception|issues?|problems?|not ok|unhandled|fatal|crash(?:ed)?|panic)\W*(?:\S+\W*){0,4}$` +
		`|(?i:\bfail(?:ed|ure)?|error|✘|✗|✖|×)\W*(?:\([\d.]+ ?m?s\)|\[[\d.]+ ?m?s\])?\s*$`)
	// fieldTitle matches a status of something that the line above names.
	fieldTitle = re(`^\s+\W*(?i:fail(?:ed|ures?)?|errors?|status|result|severity)\b`)

	placed   = re(`(?:^|[\s("'\[@/])[\w@.~-]*\.[A-Za-z]{1,6}[:(]\d+|\blines? \d+|^\s*(?:-->|at|in|File|Location:?|Origin:?|Source:?) \S*[/.]\S+`)
	ruler    = re(`^\W*[=─━═⎯*_-]{4,}\W*$`)
	signOnly = re(`\S`)
	codeLine = re(`^\s*>? *\d+ *[|│]|^\s*[|│~^+-]*[\^~]{1,}`)

	expectation = hinted{
		[]string{"expect", "actual", "got", "want", "receiv", "left", "right", "to equal", "to match", "to be", "but was", "found:", "evaluat", "diff", "+ ", "- ", "+\t", "-\t", "reason", "which", "falsif"},
		re(`(?i)^\s*(?:[#>|*│]+\s*)?(?:(?:expected|actual|got|but got|want(?:ed)?|received|left|right|found|evaluated|reason|which|falsif\w+)\b.*|to (?:equal|match|be|have|contain)\b.*|diff\w*:?|[-+]\s+\S.*)$`),
	}
	rating    = hinted{[]string{"severity"}, re(`(?i)\bseverity\W+(critical|high|medium|moderate|low|info)`)}
	labelOnly = re(`(?i)^\W*(?:[\w ]*[:({]|expected|actual|got|want(?:ed)?|received|to (?:equal|match \w+|have \w+))\s*$`)
)
