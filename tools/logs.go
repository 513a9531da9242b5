package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

const (
	// pageLines is how many lines a call gets by default, maxPage how many it may
	// request.
	pageLines = 200
	maxPage   = 10_000

	// pageBytes bounds the text of a page, with its line numbers. A page of this size fits
	// into maxResult as text and as JSON, even if every byte must be escaped.
	pageBytes = 16_000

	// maxContext is more lines than a reader needs around a match.
	maxContext = 100

	// maxPattern bounds the pattern that is compiled.
	maxPattern = 1000

	// searchTime is how long one call may search. The next call continues.
	searchTime = 5 * time.Second

	// burst is how long a call collects further output after the first that it
	// waited for, so that a burst of output is one reply.
	burst = 200 * time.Millisecond

	// foreignPoll is the interval at which a waiting call reads a log again while another
	// process writes to it.
	foreignPoll = time.Second
)

func logsTool() mcp.Tool {
	return mcp.Tool{
		Name: "logs",
		Description: `Read the output of a command, running or over, with line numbers; by default its last lines. ` +
			`To follow a running one, pass next as fromLine, with waitSeconds: returns on more output (of grep: on a match) or the end.`,
		RawInputSchema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{
			"execId":{"type":"string"},
			"fromLine":{"type":"integer","minimum":1},
			"lines":{"type":"integer","minimum":1,"maximum":%[1]d,"description":"default %[2]d"},
			"tail":{"type":"integer","minimum":1,"maximum":%[1]d,"description":"the last so many"},
			"grep":{"type":"string","description":"RE2"},
			"context":{"type":"integer","minimum":0,"maximum":%[3]d,"description":"lines around matches"},
			"stream":{"enum":["stdout","stderr"]},
			"waitSeconds":{"type":"number","minimum":0,"maximum":%[4]v,"description":"default 0"}
			},"required":["execId"],"additionalProperties":false}`,
			maxPage, pageLines, maxContext, maxWait.Seconds())),
		RawOutputSchema: json.RawMessage(logsOutput),
		Annotations:     readOnlyHints("Read output"),
		Meta:            &mcp.Meta{AdditionalFields: map[string]any{"anthropic/maxResultSizeChars": maxResult}},
	}
}

type logsArgs struct {
	execID                         string
	fromLine, lines, tail, context *int
	grep, stream                   string
	waitSeconds                    *float64
}

func (a *logsArgs) params() []param {
	return []param{
		{"execId", &a.execID}, {"fromLine", &a.fromLine}, {"lines", &a.lines}, {"tail", &a.tail},
		{"grep", &a.grep}, {"context", &a.context}, {"stream", &a.stream}, {"waitSeconds", &a.waitSeconds},
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
	}{{"fromLine", a.fromLine, 1, 1 << 31}, {"lines", a.lines, 1, maxPage}, {"tail", a.tail, 1, maxPage}, {"context", a.context, 0, maxContext}} {
		if n.value != nil && (*n.value < n.least || *n.value > n.most) {
			return invalid("", "%s must be between %d and %d, got %d", n.name, n.least, n.most, *n.value)
		}
	}
	switch {
	case a.tail != nil && (a.fromLine != nil || a.lines != nil):
		return invalid("Give only tail for the end of the log, or fromLine and lines for a range.", "tail must not be given together with fromLine or lines")
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
	q := sandbox.LineQuery{Most: pageLines, Bytes: pageBytes}
	switch {
	case a.fromLine != nil:
		q.From = int64(*a.fromLine)
	case a.tail != nil:
		q.Most = *a.tail
	case a.lines != nil || a.grep != "":
		q.From = 1
	}
	if a.lines != nil {
		q.Most = *a.lines
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
// state of the command.
type logsResult struct {
	Status      sandbox.Status `json:"status"`
	ExitCode    *int           `json:"exitCode,omitempty"`
	Signal      string         `json:"signal,omitempty"`
	Code        string         `json:"code,omitempty"` // of the command, as in ExecResult
	DurationMs  int64          `json:"durationMs"`
	Cmd         string         `json:"cmd"`
	ExecID      string         `json:"execId"`
	ContainerID string         `json:"containerId"`
	TotalLines  int64          `json:"totalLines"`
	TotalBytes  int64          `json:"totalBytes"`
	shownLines
	Screen  string  `json:"screen,omitempty"`  // of a terminal: text is what is to be seen there
	Summary string  `json:"summary,omitempty"` // of a long output, for a call that reads the end or waited for it
	Next    int64   `json:"next"`
	Hint    string  `json:"hint,omitempty"`
	LogPath string  `json:"logPath,omitempty"`
	Log     *LogGap `json:"log,omitempty"` // nil if the log is complete
	Text    string  `json:"text"`
	news

	took time.Duration
}

// shownLines are the lines of a logsResult.
type shownLines struct {
	FirstLine int64 `json:"firstLine,omitempty"`
	LastLine  int64 `json:"lastLine,omitempty"`
	Matches   *int  `json:"matches,omitempty"` // only of a search

	shown int
}

const logsOutput = `{"type":"object","properties":{
	"status":{"type":"string"},
	"exitCode":{"type":"integer"},
	"signal":{"type":"string"},
	"durationMs":{"type":"integer"},
	"cmd":{"type":"string"},
	"execId":{"type":"string"},
	"containerId":{"type":"string"},
	"totalLines":{"type":"integer"},
	"totalBytes":{"type":"integer"},
	"firstLine":{"type":"integer"},
	"lastLine":{"type":"integer"},
	"matches":{"type":"integer"},
	"screen":{"type":"string"},
	"summary":{"type":"string"},
	"next":{"type":"integer","description":"fromLine to go on with"},
	"hint":{"type":"string"},
	"logPath":{"type":"string"},
	"log":{"type":"object"},
	"text":{"type":"string"},
	"note":{},"room":{},"ended":{},
	"error":{"type":"string"},"code":{"type":"string"}
	},"anyOf":[{"required":["status","execId","next","text"]},{"required":["error","code"]}],"additionalProperties":false}`

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
	wait := s.waitLimit(ctx, args.waitSeconds, 0)
	owner := s.owner(ctx)
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

// follow reads a page. While the command may print more it waits: for lines that do not exist
// yet, for further output, or for a match.
func (s *Set) follow(ctx context.Context, owner sandbox.Owner, id string, q sandbox.LineQuery, wait time.Duration, progress func(string)) (logsResult, error) {
	deadline, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if run, err := s.Manager.Run(owner, id); err == nil && wait > 0 {
		defer cancelOnSilence(run.Box, cancel)()
	}
	var first sandbox.Lines
	for begun := false; ; begun = true {
		v, err := s.lines(ctx, owner, id, q)
		if err != nil {
			return logsResult{}, err
		}
		if !begun {
			first = v
		}
		changed := v.Record.Exit.Status != first.Record.Exit.Status
		if changed || settled(v, q) || enough(v, q, begun, first.Bytes) || deadline.Err() != nil {
			r := newLogsResult(v, q)
			// A call that waits for the end gets the summary also if the command had just ended.
			asksEnd := q.From == 0 && q.Match == nil || wait > 0 && v.Page.Next > v.Count
			if (changed || asksEnd) && r.Status != sandbox.Running {
				r.Summary = s.Manager.Summary(ctx, owner, id)
			}
			return r, nil
		}
		if q.Match != nil {
			q.From = max(q.From, min(v.Page.Next, v.Count+1)) // do not search the same lines again
		}
		if awaitChange(deadline, v.Record, progress) {
			s.collect(deadline, owner, id, v.Record.Exit.Status)
		}
	}
}

// cancelOnSilence calls cancel when a box does not respond. The caller must call stop.
func cancelOnSilence(box *sandbox.Box, cancel func()) (stop func()) {
	silent, leave := box.Monitor()
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-silent:
			cancel()
		case <-over:
		}
	})
	return func() {
		close(over)
		watch.Wait()
		leave()
	}
}

// settled reports whether there is nothing to wait for. The end of a command is worth a reply,
// whatever it left behind; only a search goes on waiting for what the leftover processes print.
func settled(v sandbox.Lines, q sandbox.LineQuery) bool {
	return !v.Record.Open || v.Record.Exit.Status != sandbox.Running && q.Match == nil
}

// enough reports whether a page is worth a reply. The first read is enough if it has complete
// lines of the requested numbers; a later one if it has anything new.
func enough(v sandbox.Lines, q sandbox.LineQuery, later bool, bytes int64) bool {
	switch {
	case q.Match != nil:
		return v.Page.Matches > 0 || !v.Page.Searched
	case later:
		return v.Bytes > bytes && (q.Stream == 0 || len(v.Page.Lines) > 0)
	case q.From > 0:
		return v.Page.Next > q.From && len(v.Page.Lines) > 0
	}
	return false
}

// lines reads a page of a command's log, for at most searchTime, also after the call was
// cancelled: a call that waited returns its last page.
func (s *Set) lines(ctx context.Context, owner sandbox.Owner, id string, q sandbox.LineQuery) (sandbox.Lines, error) {
	search, cancel := context.WithTimeout(context.WithoutCancel(ctx), searchTime)
	defer cancel()
	return s.Manager.Lines(search, owner, id, q)
}

// awaitChange waits until a record may have changed. It reports whether it has.
func awaitChange(ctx context.Context, record sandbox.Record, progress func(string)) bool {
	var poll <-chan time.Time
	if record.Changed == nil {
		poll = time.After(foreignPoll)
	}
	tick := time.NewTicker(nextProgress)
	defer tick.Stop()
	for {
		select {
		case <-record.Changed:
			return true
		case <-record.Over:
			return true
		case <-poll:
			return false
		case <-ctx.Done():
			return false
		case <-tick.C:
			if progress != nil {
				progress(string(record.Exit.Status))
			}
		}
	}
}

// collect waits for the end of a burst of output, or of the command.
func (s *Set) collect(ctx context.Context, owner sandbox.Owner, id string, status sandbox.Status) {
	over := time.NewTimer(burst)
	defer over.Stop()
	for {
		record, err := s.Manager.Record(owner, id)
		if err != nil || record.Exit.Status != status || record.Changed == nil {
			return
		}
		select {
		case <-record.Changed:
		case <-record.Over:
			return
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// newLogsResult returns the result of a page.
func newLogsResult(v sandbox.Lines, q sandbox.LineQuery) logsResult {
	rec := v.Record
	r := logsResult{
		Status: rec.Exit.Status, ExitCode: exitCode(rec.Exit), Signal: rec.Exit.Signal, Code: codeOf(rec.Exit), DurationMs: rec.Exit.Took.Milliseconds(),
		Cmd: oneLine(rec.Cmd, 200), ExecID: rec.ID, ContainerID: rec.Box, LogPath: rec.LogPath,
		TotalLines: max(rec.Log.Lines, v.Count), TotalBytes: max(rec.Log.Bytes, v.Bytes), Next: v.Page.Next,
		Text: pageText(v.Page, q), took: rec.Exit.Took, shownLines: shownLines{shown: len(v.Page.Lines)},
	}
	if n := len(v.Page.Lines); n > 0 {
		r.FirstLine, r.LastLine = v.Page.Lines[0].Number, v.Page.Lines[n-1].Number
	}
	if q.Match != nil {
		r.Matches = new(v.Page.Matches)
	}
	if !rec.Log.Complete {
		r.Log = &LogGap{LostBytes: rec.Log.Lost, Reason: rec.Log.Reason}
	}
	r.Hint = strings.Join(logsHints(v, q), " ")
	return r
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
	if !v.Page.Searched {
		list = append(list, fmt.Sprintf("The search was stopped after %v and may have missed matches. Continue it with fromLine %d, or search for plain words, which is faster.", searchTime, v.Page.Next))
	}
	if q.Stream != 0 && v.Mixed > 0 {
		list = append(list, fmt.Sprintf("From line %d on, output was printed too fast to tell stdout and stderr apart everywhere: lines of both streams may be shown.", v.Mixed))
	}
	return list
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
		if q.Match == nil {                            // a search may have found overwritten text
			text = excerpt.Settle(text)
		}
		b.WriteString(excerpt.Inert(text))
		if l.Omitted > 0 {
			fmt.Fprintf(&b, " [… %s]", excerpt.Count(l.Omitted, "byte"))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// text renders the whole result as text.
func (r logsResult) text() string {
	var b strings.Builder
	b.WriteString(strings.Join([]string{
		ending(r.Status, r.ExitCode, r.Signal), took(r.took), r.extent(), fmt.Sprintf("next %d", r.Next), "log " + cmp.Or(r.LogPath, "none"),
	}, " · ") + "\n")
	fact(&b, "screen", r.Screen)
	fact(&b, "cmd", r.Cmd)
	fact(&b, "code", r.Code)
	fact(&b, "summary ("+byBuiltin+")", indented(r.Summary))
	fact(&b, "hint", r.Hint)
	if r.Log != nil {
		fact(&b, "log incomplete", r.Log.sentence())
	}
	fmt.Fprintf(&b, "containerId: %s · execId: %s\n", r.ContainerID, r.ExecID)
	if r.Text != "" {
		fmt.Fprintf(&b, "--- output of %s: the next %s, %s ---\n%s", r.ExecID,
			excerpt.Count(int64(strings.Count(r.Text, "\n")), "line"), excerpt.Count(int64(len(r.Text)), "byte"), r.Text)
	}
	return b.String()
}

// extent says which lines are shown, of how many.
func (r logsResult) extent() string {
	total := excerpt.Count(r.TotalLines, "line") + ", " + excerpt.Count(r.TotalBytes, "byte")
	switch {
	case r.Matches != nil:
		return fmt.Sprintf("%d matching of %s", *r.Matches, total)
	case r.shown == 0 && r.Text != "": // what is to be seen at a terminal
		return total
	case r.shown == 0:
		return "none of " + total
	}
	return fmt.Sprintf("%d–%d of %s", r.FirstLine, r.LastLine, total)
}
