package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/summary"
)

const (
	// pageLines is how many lines a call gets by default, maxPage how many it may
	// request.
	pageLines = 200
	maxPage   = 10_000

	// pageBytes bounds the text of a page, with its line numbers. A page of this size fits
	// into maxResult as text and as JSON, even if every byte must be escaped.
	pageBytes = 16_000

	// minBytes is the size of the largest character. A smaller part of a line might show none.
	minBytes = utf8.UTFMax

	// endBytes bounds a page of a call without a range: as much as exec shows of a long
	// output.
	endBytes = defaultCut

	// maxContext is more lines than a reader needs around a match.
	maxContext = 100

	// maxPattern bounds the pattern that is compiled.
	maxPattern = 1000

	// searchTime is how long one call may search. The next call continues.
	searchTime = 5 * time.Second

	// countTime is how long a search goes on to count matches that its page has no room for.
	countTime = time.Second

	// lineCost is what package rawlog counts for a line besides its bytes.
	lineCost = 12
)

func (s *Set) logsTool() mcp.Tool {
	programs, output := "", logsOutput
	if s.recordsPrograms() {
		programs = `,"programs":{"type":"boolean","description":"` + s.programsText() + `"}`
		output = strings.Replace(output, `"text":{`, programsOutput+`"text":{`, 1)
		output = strings.Replace(output, `"anyOf":[`, `"anyOf":[{"required":["status","totalPrograms"]},`, 1)
	}
	return mcp.Tool{
		Name: "logs",
		Description: `Read the output of a command, running or over, with line numbers; by default its last lines. ` +
			`To follow a running one, pass next as fromLine, with waitSeconds: returns at its end, at a pause of 2 s after output, or (grep) on a match.`,
		RawInputSchema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{
			"execId":{"type":"string"},
			"fromLine":{"type":"integer","minimum":1},
			"fromByte":{"type":"integer","minimum":0,"description":"skip so many bytes of fromLine"},
			"lines":{"type":"integer","minimum":1,"maximum":%[1]d,"description":"default %[2]d"},
			"bytes":{"type":"integer","minimum":%[7]d,"maximum":%[5]d},
			"tail":{"type":"integer","minimum":1,"maximum":%[1]d,"description":"the last so many"},
			"grep":{"type":"string","description":"RE2"},
			"context":{"type":"integer","minimum":0,"maximum":%[3]d,"description":"lines around matches"},
			"stream":{"enum":["stdout","stderr"]},
			"until":{"enum":["end"],"description":"wait for its end"},
			"waitSeconds":{"type":"number","minimum":0,"maximum":%[4]v,"description":"default 0, with until %[6]v"}%[8]s
			},"required":["execId"],"additionalProperties":false}`,
			maxPage, pageLines, maxContext, maxWait.Seconds(), pageBytes, s.wait().Seconds(), minBytes, programs)),
		RawOutputSchema: json.RawMessage(output),
		Annotations:     readOnlyHints("Read output"),
		Meta:            &mcp.Meta{AdditionalFields: map[string]any{"anthropic/maxResultSizeChars": maxResult, alwaysLoad: true}},
	}
}

type logsArgs struct {
	execID              string
	fromLine, fromByte  *int
	lines, bytes        *int
	tail, context       *int
	grep, stream, until string
	waitSeconds         *float64
	programs            bool
}

func (a *logsArgs) params() []param {
	return []param{
		{"execId", &a.execID}, {"fromLine", &a.fromLine}, {"fromByte", &a.fromByte}, {"lines", &a.lines}, {"bytes", &a.bytes},
		{"tail", &a.tail}, {"grep", &a.grep}, {"context", &a.context}, {"stream", &a.stream}, {"until", &a.until}, {"waitSeconds", &a.waitSeconds}, {"programs", &a.programs},
	}
}

func (a *logsArgs) check() error {
	if a.execID == "" {
		return invalid("exec returns an execId; the tool list shows those of recent commands.", "logs needs the argument execId")
	}
	for _, n := range []struct {
		name        string
		value       *int
		least, most int
	}{
		{"fromLine", a.fromLine, 1, math.MaxInt32}, {"fromByte", a.fromByte, 0, math.MaxInt32}, {"lines", a.lines, 1, maxPage},
		{"bytes", a.bytes, minBytes, pageBytes}, {"tail", a.tail, 1, maxPage}, {"context", a.context, 0, maxContext},
	} {
		if n.value != nil && (*n.value < n.least || *n.value > n.most) {
			return invalid("", "%s must be between %d and %d, got %d", n.name, n.least, n.most, *n.value)
		}
	}
	switch {
	case a.programs && (a.fromByte != nil || a.context != nil || a.stream != "" || a.until != "" || a.waitSeconds != nil):
		return invalid("Give only fromLine, lines, bytes, tail or grep with it.", "programs lists what was executed so far; fromByte, context, stream, until and waitSeconds are for output")
	case a.tail != nil && (a.fromLine != nil || a.lines != nil):
		return invalid("Give only tail for the end of the log, or fromLine and lines for a range.", "tail must not be given together with fromLine or lines")
	case a.fromByte != nil && a.fromLine == nil:
		return invalid("Name the line in fromLine.", "fromByte skips bytes of one line, and needs fromLine")
	case a.until != "" && a.until != "end":
		return invalid("To return earlier, leave it out: waitSeconds alone returns when more was printed.", "until must be \"end\", got %s", quote(a.until))
	case a.context != nil && a.grep == "":
		return invalid("Add grep, or leave context out.", "context needs grep")
	case a.stream != "" && a.stream != "stdout" && a.stream != "stderr":
		return invalid("For both streams leave it out.", "stream must be \"stdout\" or \"stderr\", got %s", quote(a.stream))
	case len(a.grep) > maxPattern:
		return invalid("Use a shorter pattern.", "grep must have at most %[2]d bytes, got %[1]d", len(a.grep), maxPattern)
	}
	if w := a.waitSeconds; w != nil && !(*w >= 0 && *w <= maxWait.Seconds()) {
		return invalid("", "waitSeconds must be between 0 and %v, got %v", maxWait.Seconds(), *w)
	}
	return nil
}

// end reports whether the call asks for the end of the output and not for certain lines.
func (a *logsArgs) end() bool {
	return a.fromLine == nil && a.lines == nil && a.tail == nil && a.grep == "" && a.stream == ""
}

// query returns the lines to read. Without fromLine and tail that is the end of the log, for a
// search or a number of lines the beginning.
func (a *logsArgs) query() (sandbox.LineQuery, error) {
	q := sandbox.LineQuery{Most: pageLines, Bytes: pageBytes, CountFor: countTime}
	switch {
	case a.fromLine != nil:
		q.From = int64(*a.fromLine)
	case a.tail != nil:
		q.Most = *a.tail
	case a.lines != nil || a.grep != "":
		q.From = 1
	default:
		q.Bytes = endBytes
	}
	if a.lines != nil {
		q.Most = *a.lines
	}
	if a.bytes != nil {
		q.Bytes = *a.bytes + lineCost
	}
	if a.fromByte != nil {
		q.FromByte = int64(*a.fromByte)
	}
	if a.context != nil {
		q.Context = *a.context
	}
	switch a.stream {
	case "stdout":
		q.Stream = sandbox.Stdout
	case "stderr":
		q.Stream = sandbox.Stderr
	}
	if a.grep != "" {
		var err error
		if q.Match, err = regexp.Compile(a.grep); err != nil {
			return q, invalid(`Patterns have RE2 syntax, like those of Go and ripgrep, without lookaround and back references. Put literal text between \Q and \E; (?i) ignores case.`,
				"the pattern in grep is not a valid regular expression: %s", quote(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
		}
	}
	return q, nil
}

// logsResult is a page of the output of a command, inert and with its secrets masked, and the
// state of the command. It does not repeat what the caller knows.
type logsResult struct {
	Status     sandbox.Status `json:"status"`
	ExitCode   *int           `json:"exitCode,omitempty"`
	Signal     string         `json:"signal,omitempty"`
	Code       string         `json:"code,omitempty"`       // why a running or lost one cannot be reached
	DurationMs int64          `json:"durationMs,omitempty"` // of a lost one at least; 0: unknown
	TotalLines int64          `json:"totalLines"`
	TotalBytes int64          `json:"totalBytes"`
	shownLines
	Screen  string  `json:"screen,omitempty"`  // of a terminal: text is what is to be seen there
	Summary string  `json:"summary,omitempty"` // of a long output, for a call that reads the end or waited for it
	Next    int64   `json:"next,omitempty"`    // 0: everything was read
	Hint    string  `json:"hint,omitempty"`
	Log     *LogGap `json:"log,omitempty"` // nil if the log is complete
	Text    string  `json:"text"`
	news

	execID string
	lasted string
}

// shownLines are the lines of a logsResult.
type shownLines struct {
	Matches *int `json:"matches,omitempty"`        // only of a search
	AtLeast bool `json:"matchesAtLeast,omitempty"` // there may be more matches

	first, last int64 // lines
	shown       int
	found       int // shown lines that match
	query       sandbox.LineQuery
	looked      bool // the text is what is to be seen at a terminal
}

const logsOutput = `{"type":"object","properties":{
	"status":{"type":"string"},
	"exitCode":{"type":"integer"},
	"signal":{"type":"string"},
	"durationMs":{"type":"integer"},
	"totalLines":{"type":"integer"},
	"totalBytes":{"type":"integer"},
	"matches":{"type":"integer","description":"all, not only those shown"},
	"matchesAtLeast":{"type":"boolean"},
	"screen":{"type":"string"},
	"summary":{"type":"string"},
	"next":{"type":"integer","description":"fromLine to go on with"},
	"hint":{"type":"string"},
	"log":{"type":"object"},
	"text":{"type":"string"},
	"note":{},"room":{},"ended":{},
	"error":{"type":"string"},"code":{"type":"string"}
	},"anyOf":[{"required":["status","text"]},{"required":["error","code"]}],"additionalProperties":false}`

func (s *Set) handleLogs(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args logsArgs
	err := parse(req, args.params())
	if err == nil {
		err = args.check()
	}
	var q sandbox.LineQuery
	if err == nil {
		q, err = args.query()
	}
	if err != nil {
		return Failed(err), nil
	}
	byDefault := time.Duration(0)
	if args.until != "" {
		byDefault = s.wait()
	}
	wait := waiting{limit: s.waitLimit(ctx, args.waitSeconds, byDefault), untilEnd: args.until != ""}
	owner := s.owner(ctx)
	if args.programs {
		return s.logPrograms(ctx, owner, &args), nil
	}
	var r logsResult
	err = s.whenReattached(ctx, owner, func() (err error) {
		r, err = s.follow(ctx, owner, clip(args.execID), q, wait, progressOf(ctx, req))
		if run, _ := s.Manager.Run(owner, clip(args.execID)); err == nil && args.end() {
			r.look(run, true)
		}
		return err
	})
	if err != nil {
		return Failed(err), nil
	}
	r.Hint = strings.TrimSpace(r.Hint + " " + strings.Join(s.changedHint(owner, "", s.Manager.Changes(owner, 0)), " "))
	return reply(r, r.text()), nil
}

// newLogsResult returns the result of a page.
func newLogsResult(v sandbox.Lines, q sandbox.LineQuery) logsResult {
	rec, page := v.Record, v.Page
	r := logsResult{
		Status: rec.Exit.Status, ExitCode: exitCode(rec.Exit), Signal: rec.Exit.Signal, DurationMs: rec.Exit.Took.Milliseconds(),
		TotalLines: max(rec.Log.Lines, v.Count), TotalBytes: max(rec.Log.Bytes, v.Bytes),
		Text: pageText(page, q), execID: rec.ID, lasted: lasted(rec.Exit), shownLines: shownLines{shown: len(page.Lines), found: page.Matches, query: q},
	}
	if rec.Exit.Status == sandbox.Running || rec.Exit.Status == sandbox.Lost {
		r.Code = codeOf(rec.Exit)
	}
	if n := len(page.Lines); n > 0 {
		r.first, r.last = page.Lines[0].Number, page.Lines[n-1].Number
	}
	if mayPrint(rec) || !page.Searched || q.From > 0 && page.Full {
		r.Next = page.Next
	}
	if q.Match != nil {
		r.Matches, r.AtLeast = new(page.Total), !page.Counted
	}
	if !rec.Log.Complete {
		r.Log = &LogGap{LostBytes: rec.Log.Lost, Reason: rec.Log.Reason}
	}
	hints := logsHints(v, q)
	if kind := binaryKind(page); kind != "" && q.Match == nil {
		r.Text, r.shown = "", 0
		hints = append(hints, fmt.Sprintf("Its lines are binary data (%s), which is not shown: pipe the command through xxd, or write its output to a file.", kind))
	}
	r.Hint = strings.Join(hints, " ")
	return r
}

// binaryKind returns the kind of binary data that a page has, "" for text.
func binaryKind(p sandbox.Page) string {
	var beginning []byte
	for _, l := range p.Lines {
		if beginning = append(append(beginning, l.Text...), '\n'); len(beginning) > 8<<10 {
			break
		}
	}
	return summary.BinaryKind(beginning)
}

// mayPrint reports whether a command, or a process that it left behind, may print more. The log
// of one that has ended stays open for a moment.
func mayPrint(r sandbox.Record) bool {
	return r.Open && (r.Exit.Status == sandbox.Running || len(r.Exit.Leftover)+r.Exit.More > 0 || r.Changed == nil)
}

// lasted says how long a command ran, or has run.
func lasted(e sandbox.Exit) string {
	switch {
	case !e.AtLeast:
		return took(e.Took)
	case e.Took == 0:
		return "after an unknown time"
	}
	return "after at least " + took(e.Took)
}

// logsHints are the sentences of the hint.
func logsHints(v sandbox.Lines, q sandbox.LineQuery) []string {
	var list []string
	if v.Missing {
		list = append(list, "There is no log to read: it was deleted, or it could not be created.")
	}
	if v.Record.Exit.Err != nil {
		list = append(list, lostHint(v.Record.Exit.Err))
	}
	list = append(list, memoryHint(v.Record.Exit)...)
	list = append(list, limitedHint(v.Record.Limited)...)
	if !v.Page.Searched {
		list = append(list, stoppedHint(v.Page))
	}
	if p := v.Page; q.Match != nil && p.Total == 0 && p.Counted && !strings.Contains(q.Match.String(), "(?i") && v.Record.Exit.Status != sandbox.Running {
		list = append(list, "(?i) in front of the pattern ignores case.")
	}
	list = append(list, cutHint(v, q)...)
	if q.Stream != 0 && v.Mixed > 0 {
		list = append(list, fmt.Sprintf("From line %d on, output was printed too fast to tell stdout and stderr apart everywhere: lines of both streams may be shown.", v.Mixed))
	}
	return list
}

// stoppedHint says how to continue a search that was stopped.
func stoppedHint(p sandbox.Page) string {
	where := fmt.Sprintf("fromLine %d", p.Next)
	if p.NextByte > 0 { // in a long line, which plain words do not make faster
		return fmt.Sprintf("The search was stopped after %v and may have missed matches. Continue it with %s, fromByte %d.", searchTime, where, p.NextByte)
	}
	return fmt.Sprintf("The search was stopped after %v and may have missed matches. Continue it with %s, or search for plain words, which is faster.", searchTime, where)
}

// cutHint says how to read on in the first line that is cut.
func cutHint(v sandbox.Lines, q sandbox.LineQuery) []string {
	cut := slices.DeleteFunc(slices.Clone(v.Page.Lines), func(l sandbox.Line) bool { return l.Skipped == 0 && l.Omitted == 0 })
	if len(cut) == 0 {
		return nil
	}
	l := cut[0]
	end, verb := l.Size-l.Omitted, "Read on in it"
	from := end
	if l.Omitted == 0 {
		if q.FromByte > 0 && l.Number == q.From {
			return nil // the caller has come to its end
		}
		from, verb = 0, "Read it"
	}
	more := ""
	if len(cut) > 1 {
		more = ", as are other lines"
	}
	searchOn := ""
	if l.Match && q.Match != nil && from > 0 {
		searchOn = "; with grep, it finds the next match"
	}
	call := fmt.Sprintf(`logs {"execId": %q, "fromLine": %d, "fromByte": %d, "lines": 1}`, v.Record.ID, l.Number, from)
	if q.Stream != 0 {
		call = strings.TrimSuffix(call, "}") + fmt.Sprintf(`, "stream": %q}`, streamName(q.Stream))
	}
	return []string{fmt.Sprintf("Line %d is cut%s: bytes %s to %s of %s are shown. %s with %s%s.", l.Number, more, thousands(l.Skipped), thousands(end), thousands(l.Size), verb, call, searchOn)}
}

// thousands renders a number for people.
func thousands(n int64) string {
	digits, _, _ := strings.Cut(excerpt.Count(n, ""), " ")
	return digits
}

func streamName(s sandbox.Stream) string {
	if s == sandbox.Stdout {
		return "stdout"
	}
	return "stderr"
}

// pageText renders lines as grep -n does: "7:" before a line that matches, "7-" before others,
// "--" where lines are omitted between them.
func pageText(p sandbox.Page, q sandbox.LineQuery) string {
	var b strings.Builder
	last := int64(0)
	for _, l := range p.Lines {
		if q.Context > 0 && last > 0 && l.Number > last+1 {
			b.WriteString("--\n")
		}
		last = l.Number
		mark := '-'
		if l.Match {
			mark = ':'
		}
		fmt.Fprintf(&b, "%d%c ", l.Number, mark)
		if l.Lost > 0 {
			fmt.Fprintf(&b, "[… %s lost] ", excerpt.Count(l.Lost, "byte"))
		}
		if l.Skipped > 0 {
			fmt.Fprintf(&b, "[… %s] ", excerpt.Count(l.Skipped, "byte"))
		}
		text := bytes.TrimSuffix(l.Text, []byte("\r")) // the end of a line on a terminal
		// A search may have found overwritten text, and a part of a line has every byte.
		if q.Match == nil && !(q.FromByte > 0 && l.Number == q.From) {
			text = excerpt.Settle(text)
		}
		b.WriteString(excerpt.GuardMarks(excerpt.Inert(text)))
		if l.Omitted > 0 {
			fmt.Fprintf(&b, " [… %s]", excerpt.Count(l.Omitted, "byte"))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// text renders the whole result as text. Each line of output has its number, so a command can
// forge no line of ours. What is to be said besides the verdict stands between it and the output.
func (r logsResult) text() string {
	var facts strings.Builder
	fact(&facts, "code", r.Code)
	fact(&facts, "summary ("+byBuiltin+")", indented(r.Summary))
	fact(&facts, "hint", r.Hint)
	if r.Log != nil {
		fact(&facts, "log incomplete", r.Log.sentence())
	}
	verdict := strings.Join([]string{ending(r.Status, r.ExitCode, r.Signal), r.lasted, r.extent()}, " · ")
	if r.Next > 0 {
		verdict += fmt.Sprintf(" · next %d", r.Next)
	}
	switch {
	case r.Text == "":
		return verdict + "\n" + facts.String()
	case facts.Len() == 0:
		return verdict + ":\n" + r.Text
	}
	return fmt.Sprintf("%s\n%s--- output of %s, %s, %s ---\n%s", verdict, facts.String(), r.execID,
		excerpt.Count(int64(strings.Count(r.Text, "\n")), "line"), excerpt.Count(int64(len(r.Text)), "byte"), r.Text)
}

// extent says which lines are shown, of how many.
func (r logsResult) extent() string {
	total := excerpt.Count(r.TotalLines, "line")
	switch {
	case r.Matches != nil:
		return r.matches() + " in " + total
	case r.Screen != "":
		return "screen " + r.Screen
	case r.looked && r.Text == "":
		return "nothing new"
	case r.looked:
		return "new of " + total
	case r.TotalLines == 0 && r.Status == sandbox.Running:
		return "no output yet"
	case r.TotalLines == 0:
		return "no output"
	case r.shown == 0 && r.query.From > r.TotalLines:
		return fmt.Sprintf("nothing from line %s on, of %s", thousands(r.query.From), total)
	case r.shown == 0:
		return "none of " + total
	case r.first == r.last && r.TotalLines == 1:
		return "line 1"
	case r.first == r.last:
		return fmt.Sprintf("line %s of %s", thousands(r.first), thousands(r.TotalLines))
	}
	return fmt.Sprintf("lines %s–%s of %s", thousands(r.first), thousands(r.last), thousands(r.TotalLines))
}

// matches says how many lines match, and how many of them are shown.
func (r logsResult) matches() string {
	count := thousands(int64(*r.Matches)) + " matches"
	switch {
	case *r.Matches == 0:
		count = "no match"
	case *r.Matches == 1:
		count = "1 match"
	}
	if r.AtLeast && *r.Matches > 0 {
		count = "at least " + count
	}
	if r.found < *r.Matches {
		which := "first"
		if r.query.From == 0 {
			which = "last"
		}
		count = fmt.Sprintf("%s %s of %s", which, thousands(int64(r.found)), count)
	}
	switch {
	case r.query.FromByte > 0:
		count += fmt.Sprintf(" from byte %s of line %s on", thousands(r.query.FromByte), thousands(r.query.From))
	case r.query.From > 1:
		count += fmt.Sprintf(" from line %s on", thousands(r.query.From))
	}
	if r.AtLeast && r.shown == 0 {
		count += fmt.Sprintf(" before line %s", thousands(r.Next))
	}
	return count
}
