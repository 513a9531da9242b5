package bench

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for _, test := range []struct {
		times []time.Duration
		p     int
		want  time.Duration
	}{
		{nil, 50, 0},
		{[]time.Duration{7}, 50, 7},
		{[]time.Duration{7}, 95, 7},
		{[]time.Duration{3, 1, 2}, 50, 2},
		{hundred, 50, 50},
		{hundred, 95, 95},
		{hundred, 100, 100},
	} {
		before := slices.Clone(test.times)
		if got := percentile(test.times, test.p); got != test.want {
			t.Errorf("percentile %d of %d times is %d, want %d", test.p, len(test.times), got, test.want)
		}
		if !slices.Equal(before, test.times) {
			t.Error("the times were put into another order")
		}
	}
}

// A machine that becomes ten times slower halfway does not change a ratio.
func TestRatioIsOfPairs(t *testing.T) {
	base := []time.Duration{10, 10, 10, 100, 100, 100, 100}
	mine := []time.Duration{5, 5, 5, 50, 50, 50, 50}
	if got := ratio(mine, base); got != 0.5 {
		t.Errorf("%v, want 0.5", got)
	}
	if got := ratio(nil, base); got != 0 {
		t.Errorf("of nothing: %v, want 0", got)
	}
}

// Every way runs in every round, its preparation and clean-up are not timed, and
// warm-up rounds do not count.
func TestInterleaveRunsEveryWayInEveryRound(t *testing.T) {
	var log strings.Builder
	say := func(s string) func(context.Context) error {
		return func(context.Context) error { log.WriteString(s); return nil }
	}
	ways := []way{{name: "a", prepare: say("("), do: say("a"), undo: say(")")}, {name: "b", do: say("b")}}
	all, err := interleave(t.Context(), ways, pace{warm: 2, rounds: 5, most: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, times := range all {
		if len(times.did) != 5 || len(times.undid) != 5 {
			t.Errorf("%d and %d times, want 5", len(times.did), len(times.undid))
		}
	}
	if rest := strings.NewReplacer("(a)", "", "b", "").Replace(log.String()); rest != "" || strings.Count(log.String(), "(a)") != 7 || strings.Count(log.String(), "b") != 7 {
		t.Errorf("done was %q", log.String())
	}
	if strings.Contains(log.String(), "(a)(a)") || strings.Contains(log.String(), "bb") {
		t.Errorf("twice in a row: %q", log.String())
	}
	log.Reset()
	broken := way{name: "broken", do: func(context.Context) error { return io.ErrUnexpectedEOF }, undo: say("undone")}
	_, err = interleave(t.Context(), []way{broken}, pace{rounds: 1})
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "broken") {
		t.Errorf("the error names no way: %v", err)
	}
	if log.String() != "undone" {
		t.Errorf("what failed is left as it was: %q", log.String())
	}
}

// A measurement ends in time however slow a way is, and has at least one round.
func TestInterleaveEndsInTime(t *testing.T) {
	all, err := interleave(t.Context(), []way{{name: "a", do: func(context.Context) error { return nil }}}, pace{warm: 1, rounds: 1 << 40, most: time.Millisecond})
	if err != nil || len(all[0].did) == 0 {
		t.Errorf("%d times, %v", len(all[0].did), err)
	}
}

// A log arrives in pieces of any size, and some lines are not JSON.
func TestJournalReadsPiecesOfAnySize(t *testing.T) {
	const log = `{"msg":"serving","url":"http://[::1]:1/mcp"}` + "\n" + "panic: no JSON\n" + `{"msg":"box started","path":"socket"}` + "\n" + `{"msg":"command"}` + "\n"
	for size := 1; size <= len(log); size++ {
		var next strings.Builder
		j := newJournal(&next)
		for piece := range slices.Chunk([]byte(log), size) {
			if n, err := j.Write(piece); err != nil || n != len(piece) {
				t.Fatal(n, err)
			}
		}
		if next.String() != log {
			t.Errorf("in pieces of %d bytes %q is passed on", size, next.String())
		}
		if len(j.serving) != 1 || len(j.started) != 1 || <-j.serving != "http://[::1]:1/mcp" || <-j.started != "socket" {
			t.Errorf("in pieces of %d bytes it is not understood", size)
		}
		if want := log[strings.Index(log, "panic"):]; j.tail()+"\n" != want {
			t.Errorf("the last lines are %q, want %q", j.tail(), want)
		}
	}
}

// A line without an end does not use unbounded memory.
func TestJournalIsBounded(t *testing.T) {
	j := newJournal(nil)
	for range 100 {
		j.Write(bytes.Repeat([]byte("x"), maxJournal))
	}
	if len(j.line) > maxJournal {
		t.Errorf("it stores %d bytes, more than the bound of %d", len(j.line), maxJournal)
	}
}

func sampleReport() *Report {
	return &Report{
		When: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Facts: []Fact{
			{"machine", "linux/amd64, 2 CPUs"},
			{"commands", "checked: " + strings.Repeat("word ", 40)},
		},
		Commands: []Group{{Name: "cat <x> & | sort", Base: wayLocal, Rows: []Row{
			{wayLocal, 100, 1.5, 2, 1}, {wayStdio, 100, 0.9, 1.2, 0.6}, {wayHTTP, 100, 1.2, 1.9, 0.8}, {wayRun, 5, 283, 310, 188.6},
		}}},
		Concurrent: []Concurrent{{wayLocal, 8, 1234, 1}, {wayStdio, 8, 2345, 1.9}},
		Starts:     []Group{{Name: "start", Base: "bare", Rows: []Row{{"bare", 3, 250, 260, 1}}}},
		Bulk:       []Flow{{Way: wayStdio, Bytes: 200_000_000, P50: 400, Rate: 500, Ratio: 5, Base: wayExec, Growth: 7_000_000, Reply: 9000}},
		Memory:     []Memory{{"server, idle", 33_000_000, 8_000_000}},
		Skipped:    []string{"git status, " + strings.Repeat("a long reason ", 20)},
	}
}

// A table has at most a hundred columns, however long names and sentences are.
func TestTableFits(t *testing.T) {
	r := sampleReport()
	r.Commands[0].Name = strings.Repeat("é", 200)
	var out strings.Builder
	if err := errors.Join(Facts(&out, r.Facts), r.Table(&out)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > tableWidth {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	for _, want := range []string{"0.60 ×", "189 ×", "283", "1234", "33.0", "left out: git status"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

// The chart is well-formed XML for any command, and no bar leaves it.
func TestChartIsWellFormed(t *testing.T) {
	var out bytes.Buffer
	if err := sampleReport().SVG(&out); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(&out); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			checkBar(t, e)
		}
	}
	if err := new(Report).SVG(io.Discard); err != nil {
		t.Errorf("of nothing: %v", err)
	}
}

func checkBar(t *testing.T, e xml.StartElement) {
	at := map[string]float64{}
	for _, a := range e.Attr {
		at[a.Name.Local], _ = strconv.ParseFloat(a.Value, 64) // 0 for colours
	}
	if at["x"]+at["width"] > chartWidth-valueWidth {
		t.Errorf("a bar ends at %v, beyond %d", at["x"]+at["width"], chartWidth-valueWidth)
	}
}

// Written ratios can be read, and other files are refused.
func TestRatiosFileRoundTrip(t *testing.T) {
	want := Ratios{"true": 0.61, "cat /etc/passwd | sort | wc -l": 1.05}
	var text strings.Builder
	if err := want.Write(&text, "what it is\nhow to renew it\n"); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRatios(strings.NewReader(text.String()))
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v from %q", got, err, text.String())
	}
	for _, bad := range []string{"", "# only words\n", "0.5\n", "half true\n", "-1 true\n", "0 true\n"} {
		if got, err := ReadRatios(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken for %v", bad, got)
		}
	}
}
