package sandbox

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A piece is one write of a command.
type piece struct {
	stream int // 0: stdout, 1: stderr
	text   string
}

// usual are the limits of a reply.
var usual = excerpt.Limits{Whole: 8000, Cut: 4000}

// endedRun returns a run that has printed, with its log and its digest.
func endedRun(t testing.TB, code int, pieces ...piece) *Run {
	t.Helper()
	r := openRun(t, &rawlog.Store{Dir: t.TempDir(), MaxRun: 2 << 30}, pieces...)
	r.digest.end(Exit{Status: Exited, Code: code})
	close(r.done)
	r.log.Close()
	return r
}

// openRun returns a run that has printed and goes on.
func openRun(t testing.TB, store *rawlog.Store, pieces ...piece) *Run {
	t.Helper()
	box := &Box{shared: &shared{logs: store}, logger: slog.New(slog.DiscardHandler)}
	r := &Run{
		ID: "e-1", Box: box, Command: Command{Cmd: "make", SummarizeAbove: usual.Whole},
		opened: make(chan struct{}), done: make(chan struct{}), log: store.Create(rawlog.Meta{Exec: "e-1"}),
	}
	close(r.opened)
	for i := range r.ends {
		r.ends[i] = excerpt.Keeper{Limit: usual.Whole, Mask: r.secrets.Within}
	}
	r.digest = newDigester(r)
	r.digest.report = func(string) {}
	for _, p := range pieces {
		for frame := range slices.Chunk([]byte(p.text), wire.MaxPayload) {
			r.log.Write([]rawlog.Stream{rawlog.Stdout, rawlog.Stderr}[p.stream], frame)
			r.ends[p.stream].Write(frame)
			r.digest.write(p.stream, frame)
		}
	}
	return r
}

// steps returns lines "step N" of 40 bytes.
func steps(from, to int) string {
	var b strings.Builder
	for n := from; n <= to; n++ {
		fmt.Fprintf(&b, "step %034d\n", n)
	}
	return b.String()
}

// A failure in the middle of a long output is shown with the lines around it, which both streams
// printed.
func TestExcerptShowsFailuresWithTheirNeighbours(t *testing.T) {
	r := endedRun(t, 2,
		piece{0, steps(1, 1000)}, piece{1, "main.c:7:5: error: expected expression\n    return 1 +;\n              ^\n"}, piece{0, steps(1004, 3000)},
	)
	stdout, stderr := r.Excerpt(t.Context(), usual)
	wantErr := "main.c:7:5: error: expected expression\n    return 1 +;\n              ^\n"
	if d := cmp.Diff(wantErr, stderr.Text); d != "" {
		t.Error(d)
	}
	want := steps(1, 15) + "[… lines 16-990 left out …]\n" + steps(991, 1000) + steps(1004, 1031) + "[… lines 1032-2956 left out …]\n" + steps(2957, 3000)
	if d := cmp.Diff(want, stdout.Text); d != "" {
		t.Error(d)
	}
	if stdout.FirstOmitted != 16 || stdout.OmittedLines != 975+1925 || stdout.OmittedBytes != 40*stdout.OmittedLines || stderr.OmittedBytes != 0 {
		t.Errorf("%+v, %+v", stdout, stderr)
	}
}

// A printed stream, with the line of the log that each byte is in.
type printedStream struct {
	text string
	line []int64
}

func printedStreams(pieces []piece) (streams [2]printedStream) {
	line := int64(1)
	for _, p := range pieces {
		for i := range len(p.text) {
			streams[p.stream].line = append(streams[p.stream].line, line)
			if p.text[i] == '\n' {
				line++
			}
		}
		streams[p.stream].text += p.text
	}
	return streams
}

var marks = regexp.MustCompile(`^\[… (?:([0-9,]+) bytes? of |(std...) of )?lines? (\d+)(?:-(\d+))? left out …\]\n$`)

// check checks that an excerpt is the stream with its gaps, and returns for each byte whether it
// is shown.
func (s printedStream) check(t *testing.T, e excerpt.Excerpt, name string) (shown []bool) {
	t.Helper()
	shown = make([]bool, len(s.text))
	if !s.matches(slices.Collect(strings.Lines(e.Text)), 0, name, e.OmittedBytes, shown) {
		t.Fatalf("this is not what was printed to %s:\n%s", name, e.Text)
	}
	lines := int64(0)
	for i, is := range shown {
		if is && (s.text[i] == '\n' || i == len(s.text)-1) {
			lines++
		}
	}
	if e.Bytes != int64(len(s.text)) || e.OmittedLines != e.Lines-lines {
		t.Fatalf("%s: %d bytes, %d lines shown: %+v", name, len(s.text), lines, e)
	}
	return shown
}

// matches reports whether lines of an excerpt are what the stream has from a position on.
func (s printedStream) matches(lines []string, at int, name string, omitted int64, shown []bool) bool {
	clear(shown[at:])
	if len(lines) == 0 {
		return at == len(s.text) && count(shown, false) == omitted
	}
	if m := marks.FindStringSubmatch(lines[0]); m != nil {
		to := s.skip(m, at, name)
		return to > at && s.matches(lines[1:], to, name, omitted, shown)
	}
	if s.shows(lines[0], at, shown) && s.matches(lines[1:], at+len(lines[0]), name, omitted, shown) {
		return true
	}
	// A line feed before a mark may be ours.
	text := strings.TrimSuffix(lines[0], "\n")
	if len(lines) == 1 || !marks.MatchString(lines[1]) {
		return false
	}
	clear(shown[at:])
	return s.shows(text, at, shown) && s.matches(lines[1:], at+len(text), name, omitted, shown)
}

func count(list []bool, what bool) (n int64) {
	for _, is := range list {
		if is == what {
			n++
		}
	}
	return n
}

// shows reports whether the stream has a text at a position, and records that it is shown.
func (s printedStream) shows(text string, at int, shown []bool) bool {
	if !strings.HasPrefix(s.text[at:], text) {
		return false
	}
	for i := range len(text) {
		shown[at+i] = true
	}
	return true
}

// skip returns where a gap ends that begins at a position, or -1 if its mark is wrong.
func (s printedStream) skip(mark []string, at int, name string) int {
	first, _ := strconv.ParseInt(mark[3], 10, 64)
	last, _ := strconv.ParseInt(mark[4], 10, 64)
	last = max(first, last)
	to := at
	if n, err := strconv.Atoi(strings.ReplaceAll(mark[1], ",", "")); err == nil {
		to += n
	} else {
		for to < len(s.text) && s.line[to] <= last {
			to++
		}
	}
	if to == at || to > len(s.text) || s.line[at] < first || s.line[to-1] > last || mark[2] != "" && mark[2] != name {
		return -1
	}
	return to
}

// TestExcerptIsTheOutputWithItsGaps: for any output of both streams and any failures, what is
// shown and what the marks leave out is the output, and no more is shown than the limits allow.
func TestExcerptIsTheOutputWithItsGaps(t *testing.T) {
	parts := []string{"word ", "another ", "é漢字", ".\n", "end\n", "line\n", "a longer line of some text\n", strings.Repeat("x", 700), "\tone\ntwo\n"}
	gaps := 0
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 1))
		var pieces []piece
		other := r.IntN(20)
		for range 50 + r.IntN(800) {
			p := piece{}
			if r.IntN(20) < other {
				p.stream = 1
			}
			for range r.IntN(5) {
				p.text += parts[r.IntN(len(parts))]
			}
			pieces = append(pieces, p)
		}
		run := endedRun(t, 1, pieces...)
		l := excerpt.Limits{Whole: 50 + r.IntN(4000)}
		l.Cut = 1 + r.IntN(l.Whole)
		stdout, stderr := run.Output(l)
		if stdout.OmittedBytes+stderr.OmittedBytes == 0 {
			continue
		}
		var failures []int64
		for range r.IntN(10) {
			failures = append(failures, 1+r.Int64N(run.LogStats().Lines))
		}
		both, err := run.passages(t.Context(), [2]excerpt.Excerpt{stdout, stderr}, failures, l)
		if err != nil {
			t.Fatal(err)
		}
		streams := printedStreams(pieces)
		shown := [2][]bool{streams[0].check(t, both[0], "stdout"), streams[1].check(t, both[1], "stderr")}
		lines := make(map[int64]bool) // whether a byte of it is shown
		size, unseen := 0, int64(0)
		for i, s := range streams {
			for k, line := range s.line {
				if shown[i][k] {
					lines[line] = true
					size++
				} else if unseen == 0 || line < unseen {
					unseen = line
				}
			}
		}
		if size > l.Whole {
			t.Errorf("%d: %d bytes, limits %+v", seed, size, l)
		}
		if got := both[0].FirstOmitted; got != unseen || got != both[1].FirstOmitted {
			t.Errorf("%d: the first line left out is %d, not %d", seed, got, unseen)
		}
		for _, e := range both {
			for line := range strings.Lines(e.Text) {
				m := marks.FindStringSubmatch(line)
				if m == nil || m[1] != "" || m[2] != "" {
					continue
				}
				gaps++
				first, _ := strconv.ParseInt(m[3], 10, 64)
				last, _ := strconv.ParseInt(m[4], 10, 64)
				for n := first; n <= last; n++ {
					if lines[n] {
						t.Fatalf("%d: line %d is shown, and %q says that it is not", seed, n, line)
					}
				}
			}
		}
	}
	if gaps < 25 {
		t.Errorf("only %d gaps were checked", gaps)
	}
}

// TestNoPassageShowsPartOfASecret: wherever a passage is cut.
func TestNoPassageShowsPartOfASecret(t *testing.T) {
	const token = "ghp" + "_0123456789abcdefghijABCDEFGHIJ012345"
	for pad := range 60 {
		long := strings.Repeat("x ", 120) + strings.Repeat("y", pad) + " " + token + strings.Repeat(" z", 500) + "\n"
		run := endedRun(t, 1, piece{0, steps(1, 400) + long + steps(402, 800) + token[:pad%len(token)]}, piece{0, token[pad%len(token):] + "\n"})
		e, _ := run.Excerpt(t.Context(), usual)
		both, err := run.passages(t.Context(), [2]excerpt.Excerpt{e, {}}, []int64{401}, usual)
		if err != nil {
			t.Fatal(err)
		}
		if text := both[0].Text; strings.Contains(text, token[:6]) || strings.Contains(text, token[30:]) || !strings.Contains(text, "\nx x ") || !strings.HasSuffix(text, "‹github token›\n") {
			t.Fatalf("%d: %s", pad, text)
		}
	}
}

// TestBoxCannotForgeAMark: a line that looks like one gets a backslash.
func TestBoxCannotForgeAMark(t *testing.T) {
	const forged = "[… lines 13-995 left out …]\n"
	run := endedRun(t, 1, piece{0, forged + " \t" + forged + "\r" + forged + steps(4, 1000) + forged})
	for name, e := range map[string]excerpt.Excerpt{
		"of the log":  first(run.Excerpt(t.Context(), usual)),
		"of the ends": first(run.Output(usual)),
	} {
		if n := strings.Count(e.Text, `\[… lines 13-995 left out …]`+"\n"); n != 4 {
			t.Errorf("%s: %d of 4 are guarded:\n%s", name, n, e.Text)
		}
		if n := len(regexp.MustCompile(`(?m)^\W*\[… `).FindAllString(strings.ReplaceAll(e.Text, `\[`, ""), -1)); n != 1 {
			t.Errorf("%s: %d marks:\n%s", name, n, e.Text)
		}
	}
}

func first(stdout, _ excerpt.Excerpt) excerpt.Excerpt { return stdout }

// A few lines on one stream are shown whatever the other one printed around them.
func TestExcerptShowsTheSmallStreamWhole(t *testing.T) {
	run := endedRun(t, 0,
		piece{0, steps(1, 500)}, piece{1, "note: slow disk\n"}, piece{0, steps(502, 900)}, piece{1, "note: slow "}, piece{0, "x\n"}, piece{1, "net\n"}, piece{0, steps(903, 3000)},
	)
	stdout, stderr := run.Excerpt(t.Context(), usual)
	if want := "note: slow disk\nnote: slow net\n"; stderr.Text != want || stderr.OmittedBytes != 0 {
		t.Errorf("%q, want %q", stderr.Text, want)
	}
	if !regexp.MustCompile(`\n\[… stdout of lines 2\d-900 left out …\]\n`).MatchString(stdout.Text) {
		t.Error(stdout.Text)
	}
	streams := printedStreams([]piece{{0, steps(1, 500)}, {1, "note: slow disk\n"}, {0, steps(502, 900)}, {1, "note: slow "}, {0, "x\n"}, {1, "net\n"}, {0, steps(903, 3000)}})
	streams[0].check(t, stdout, "stdout")
}

// TestExcerptIsAsLongAsNeeded: it has the usual size, more where failures need that, and nearly all
// of an output that is a little longer than what is shown whole.
func TestExcerptIsAsLongAsNeeded(t *testing.T) {
	for name, test := range map[string]struct {
		lines       int
		failures    []int64
		least, most int64
	}{
		"no failure":      {1000, nil, 4000 - 100, 4000},
		"one failure":     {1000, []int64{500}, 4000 - 100, 4000},
		"many failures":   {1000, []int64{100, 200, 300, 400, 500, 600, 700, 800, 900, 150, 250}, 4400, 5500},
		"more than fit":   {10_000, []int64{100, 200, 300, 400, 500, 600, 700, 800, 900, 150, 250, 1100, 1200, 1300, 1400, 1500, 1600, 1700, 1800, 1900, 2000, 2100, 2200, 2300}, 6000, 8000},
		"a little longer": {210, nil, 7900, 8000},
	} {
		run := endedRun(t, 1, piece{0, steps(1, test.lines)})
		both, err := run.passages(t.Context(), [2]excerpt.Excerpt{first(run.Output(usual)), {}}, test.failures, usual)
		if n := both[0].Bytes - both[0].OmittedBytes; err != nil || n < test.least || n > test.most {
			t.Errorf("%s: %d bytes, want %d to %d; %v", name, n, test.least, test.most, err)
		}
	}
}

// TestExcerptNeedsACompleteLog: else it has the ends that are in memory.
func TestExcerptNeedsACompleteLog(t *testing.T) {
	text := piece{0, steps(1, 3000)}
	running := openRun(t, &rawlog.Store{Dir: t.TempDir()}, text)
	defer func() {
		running.digest.end(Exit{Status: Exited})
		<-running.digest.done
		running.log.Close()
	}()
	cut := openRun(t, &rawlog.Store{Dir: t.TempDir(), MaxRun: 50_000}, text)
	deleted := endedRun(t, 0, text)
	if err := os.Remove(deleted.LogPath()); err != nil {
		t.Fatal(err)
	}
	cut.digest.end(Exit{Status: Exited})
	close(cut.done)
	cut.log.Close()
	ends := first(deleted.Output(usual))
	for name, r := range map[string]*Run{"it runs": running, "the log has a limit": cut, "the log is deleted": deleted} {
		if e, _ := r.Excerpt(t.Context(), usual); e != ends || e.FirstOmitted != 26 {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if e, _ := endedRun(t, 0, text).Excerpt(t.Context(), usual); e == ends {
		t.Error("a complete log makes no difference")
	}
}

// TestExcerptOfOverwrittenText: a progress bar leaves its last state, and is not counted as left
// out.
func TestExcerptOfOverwrittenText(t *testing.T) {
	bar := ""
	for n := range 21 {
		bar += fmt.Sprintf("\rget %3d%%", 5*n)
	}
	run := endedRun(t, 0, piece{0, steps(1, 10) + bar + "\n" + steps(12, 1000)})
	e := first(run.Excerpt(t.Context(), usual))
	shown := int64(0)
	for line := range strings.Lines(e.Text) {
		if !marks.MatchString(line) {
			shown += int64(len(strings.ReplaceAll(line, "␍", "\r")))
		}
	}
	if e.Overwritten == 0 || shown+e.OmittedBytes+e.Overwritten != e.Bytes {
		t.Errorf("%d shown: %+v", shown, e)
	}
}

// TestExcerptReadsBoundedBytes: of a log with a line of 64 MB.
func TestExcerptReadsBoundedBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 64 MB")
	}
	pieces := []piece{{0, steps(1, 5000)}}
	for range 1 << 10 {
		pieces = append(pieces, piece{0, strings.Repeat("error: x", 8<<10)})
	}
	run := endedRun(t, 1, append(pieces, piece{0, "\n" + steps(5002, 10_000)})...)
	run.Digest(t.Context())
	stdout, stderr := run.Output(usual)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	both, err := run.passages(t.Context(), [2]excerpt.Excerpt{stdout, stderr}, []int64{5001, 9000, 1000}, usual)
	runtime.ReadMemStats(&after)
	if err != nil || !strings.Contains(both[0].Text, "error: xerror: x") {
		t.Errorf("%v: %s", err, both[0].Text)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

// A scoreCase is the output of a real command with the facts that a reader needs.
type scoreCase struct {
	name, cmd string
	exit      int
	output    string
	facts     []struct {
		Fact   string
		Weight float64
		AnyOf  []string `json:"any_of"`
	}
}

// scoreCases returns the cases of the summariser with more output than a reply shows whole.
func scoreCases(t *testing.T, set string) (list []scoreCase) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("summary", "testdata", set, "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no cases of %s: %v", set, err)
	}
	for _, d := range dirs {
		read := func(name string) []byte { p, _ := os.ReadFile(filepath.Join(d, name)); return p }
		c := scoreCase{name: filepath.Base(d), cmd: strings.TrimSpace(string(read("cmd"))), output: string(read("output"))}
		c.exit, _ = strconv.Atoi(strings.TrimSpace(string(read("exit"))))
		if err := json.Unmarshal(read("facts.json"), &c.facts); err != nil {
			t.Fatalf("%s: %v", d, err)
		}
		if c.output == "" {
			if z, err := gzip.NewReader(bytes.NewReader(read("output.gz"))); err == nil {
				p, _ := io.ReadAll(z)
				c.output = string(p)
			}
		}
		if len(c.output) > usual.Whole {
			list = append(list, c)
		}
	}
	return list
}

// score returns the share of the facts in a text.
func (c scoreCase) score(text string) float64 {
	var got, all float64
	for _, f := range c.facts {
		all += f.Weight
		for _, p := range f.AnyOf {
			if regexp.MustCompile(p).MatchString(text) {
				got += f.Weight
				break
			}
		}
	}
	return got / all
}

// TestExcerptShowsTheFacts: of outputs of real commands, an excerpt shows far more of the facts
// that a reader needs than the ends alone, and the summary with it more than with the ends. It
// prints the figures of each.
func TestExcerptShowsTheFacts(t *testing.T) {
	var n, ends, excerpts, withEnds, withExcerpt float64
	size := [2]int{}
	for _, set := range []string{"dev", "own", "later"} {
		for _, c := range scoreCases(t, set) {
			var pieces []piece
			for line := range strings.Lines(c.output) {
				pieces = append(pieces, piece{0, line})
			}
			run := endedRun(t, c.exit, pieces...)
			d, _ := run.Digest(t.Context())
			old, e := first(run.Output(usual)), first(run.Excerpt(t.Context(), usual))
			t.Logf("%-26s %7d bytes: ends %4d tokens, %3.0f %%; excerpt %4d tokens, %3.0f %%; summary %3.0f %%", c.name, len(c.output),
				len(old.Text)/4, 100*c.score(old.Text), len(e.Text)/4, 100*c.score(e.Text), 100*c.score(d.Summary))
			n++
			ends, excerpts = ends+c.score(old.Text), excerpts+c.score(e.Text)
			withEnds, withExcerpt = withEnds+c.score(d.Summary+old.Text), withExcerpt+c.score(d.Summary+e.Text)
			if len(c.output) > usual.Whole*3/2 {
				size[0], size[1] = size[0]+len(old.Text), size[1]+len(e.Text)
			}
		}
	}
	t.Logf("%.0f outputs: ends %.1f %%, excerpt %.1f %%; with the summary %.1f %% and %.1f %%; of long ones %d and %d bytes", n,
		100*ends/n, 100*excerpts/n, 100*withEnds/n, 100*withExcerpt/n, size[0], size[1])
	if excerpts/n < 0.85 || excerpts/n < ends/n+0.2 || withExcerpt < withEnds || float64(size[1]) > 1.1*float64(size[0]) {
		t.Error("the excerpt shows too little, or is too long")
	}
}

func BenchmarkExcerpt(b *testing.B) {
	run := endedRun(b, 1, piece{0, steps(1, 30_000)}, piece{1, "main.c:7:5: error: expected expression\n"}, piece{0, steps(30_002, 60_000)})
	run.Digest(b.Context())
	for b.Loop() {
		run.Excerpt(b.Context(), usual)
	}
}
