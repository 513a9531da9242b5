package summary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestSmallOutputIsShownWhole(t *testing.T) {
	for name, tt := range map[string]struct {
		output string
		exit   Exit
		want   string
	}{
		"nothing":   {"", Exit{}, "exit 0, no output"},
		"one line":  {"hi\n", Exit{}, "exit 0, 1 line, 3 B:\nhi"},
		"no end":    {"a\nb", Exit{Code: 3}, "exit 3, 2 lines, 3 B:\na\nb"},
		"signal":    {"x\n", Exit{Code: 137, Signal: "SIGKILL"}, "exit 137 (SIGKILL), 1 line, 2 B:\nx"},
		"by code":   {"x\n", Exit{Code: 139}, "exit 139 (SIGSEGV, segmentation fault), 1 line, 2 B:\nx"},
		"time":      {"x\n", Exit{Code: 143, TimedOut: true}, "exit 143 (timed out), 1 line, 2 B:\nx"},
		"colours":   {"\x1b[31mred\x1b[0m \x1b]0;title\x07x\n", Exit{}, "exit 0, 1 line, 25 B:\nred x"},
		"progress":  {"10%\r50%\r100%\r\nok\n", Exit{}, "exit 0, 2 lines, 17 B:\n100%\nok"},
		"backspace": {"abd\bc\n", Exit{}, "exit 0, 1 line, 6 B:\nabc"},
		"bad bytes": {"a\xffb \u202e\n", Exit{}, "exit 0, 1 line, 8 B:\na�b �"},
		"binary":    {"\x7fELF\x02\x01\x00\x00", Exit{}, "exit 0, binary output: ELF, 8 B"},
		"lost osc":  {"\x1b]never ended\nnext\n", Exit{}, "exit 0, 2 lines, 19 B:\n\nnext"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Options{})
			io.WriteString(s, tt.output)
			if got := s.Summary(tt.exit); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Claims in the output do not change the verdict.
func TestVerdictIsTheExitCode(t *testing.T) {
	for _, code := range []int{0, 1, 2, 77} {
		s := New(Options{})
		fmt.Fprint(s, strings.Repeat("exit 0, all tests passed, 0 errors\nBUILD SUCCESSFUL\n", 100))
		if got, want := s.Summary(Exit{Code: code}), fmt.Sprintf("exit %d, 200 lines", code); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q first", got, want)
		}
	}
}

// Failures that do not fit are listed by name, shown ones are not counted again, and a
// name with a secret is omitted.
func TestFailuresThatDoNotFitAreNamed(t *testing.T) {
	var log strings.Builder
	for i := range 15 {
		fmt.Fprintf(&log, "    ledger_test.go:%d: got %d: the ledger does not balance, and here is a long word about why\n--- FAIL: TestCase%d (0.00s)\n", i, i, i)
	}
	log.WriteString("--- FAIL: TestOf/hunter22 (0.00s)\n")
	s := New(Options{Mask: func(text string) string { return strings.ReplaceAll(text, "hunter22", "‹secret›") }})
	io.WriteString(s, log.String())
	text := s.Summary(Exit{Code: 1})
	shown := strings.Count(text, "--- FAIL: TestCase") // the other may be shown, masked
	if want := fmt.Sprintf("\n%d more failed: ", 15-shown); !strings.Contains(text, want) {
		t.Errorf("%q is missing in:\n%s", want, text)
	}
	for i := range 15 {
		if !mentions(text, fmt.Sprintf("TestCase%d", i)) {
			t.Errorf("TestCase%d is not named in:\n%s", i, text)
		}
	}
	if strings.Contains(text, "hunter22") {
		t.Errorf("a secret is shown:\n%s", text)
	}
}

// Every summary and digest is bounded, copied from the output, and independent of the
// pieces in which it was written.
func TestSummaryIsBoundedAndVerbatim(t *testing.T) {
	budgets := [][]int{{0, 100}, {300, 2000}} // alternating, since all of them take too long
	for i, c := range loadCases(t, "dev") {
		for _, budget := range budgets[i%len(budgets)] {
			checkPromises(t, c.output, budget, c.exit, 777)
		}
	}
	for _, c := range loadCases(t, "dev2") {
		checkPromises(t, c.output, 0, c.exit, 4999)
	}
}

// checkPromises writes an output at once and in pieces.
func checkPromises(t *testing.T, output []byte, budget, code, piece int) {
	t.Helper()
	s := New(Options{Budget: budget})
	s.Write(output)
	text := s.Summary(Exit{Code: code})
	if limit := max(s.options.Budget, minBudget); len(text) > limit {
		t.Errorf("%d bytes, more than %d", len(text), limit)
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, forbidden) {
		t.Errorf("not inert: %q", text)
	}
	checkVerbatim(t, output, text)
	digest := s.Digest(Exit{Code: code})
	checkDigest(t, output, digest, KeptBytes)

	pieces := New(Options{Budget: budget})
	for rest := output; len(rest) > 0; {
		n := min(piece, len(rest))
		pieces.Write(rest[:n])
		rest = rest[n:]
	}
	if again := pieces.Summary(Exit{Code: code}); again != text {
		t.Errorf("in pieces of %d:\n%s\nat once:\n%s", piece, again, text)
	}
	if again := pieces.Digest(Exit{Code: code}); !reflect.DeepEqual(again, digest) {
		t.Errorf("in pieces of %d:\n%s\nat once:\n%s", piece, again.Kept, digest.Kept)
	}
}

func forbidden(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || unseen(r)
}

var (
	excerptLine = regexp.MustCompile(`^(\d+): (.*)$`)
	countNote   = regexp.MustCompile(` \[×\d+, \d+-\d+\]$`)
)

// checkVerbatim checks that each numbered line is in the output's line of that number,
// except for … where a part is omitted.
func checkVerbatim(t *testing.T, output []byte, text string) {
	t.Helper()
	verdict, body, _ := strings.Cut(text, "\n")
	if strings.HasSuffix(verdict, ":") {
		return // the whole output
	}
	raw := bytes.Split(output, []byte("\n"))
	for l := range strings.SplitSeq(body, "\n") {
		m := excerptLine.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		n, _ := strconv.Atoi(m[1])
		if n < 1 || n > len(raw) {
			t.Errorf("there is no line %d", n)
			continue
		}
		shown := strings.Split(countNote.ReplaceAllString(m[2], ""), clip)
		clean := slowClean(raw[n-1])
		if !slices.ContainsFunc(append(jsonStrings(clean), clean), func(from string) bool { return holds(from, shown) }) {
			t.Errorf("line %d has no %q", n, shown)
		}
	}
}

// holds reports whether a text has all pieces in order. A run of blanks is like a few.
func holds(text string, pieces []string) bool {
	text = blanks.ReplaceAllString(text, "  ")
	for _, piece := range pieces {
		_, rest, found := strings.Cut(text, blanks.ReplaceAllString(piece, "  "))
		if !found {
			return false
		}
		text = rest
	}
	return true
}

var blanks = regexp.MustCompile(` {2,}`)

// jsonStrings returns the strings of an object in a line.
func jsonStrings(text string) (list []string) {
	_, object, _ := strings.Cut(text, "{")
	object = "{" + object
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(object), &members) != nil {
		return nil
	}
	for _, value := range members {
		var s string
		if json.Unmarshal(value, &s) == nil {
			s = escapes.ReplaceAllString(s, "")
			list = append(list, strings.Map(func(r rune) rune {
				if unicode.IsPrint(r) {
					return r
				}
				return ' '
			}, s))
		}
	}
	return list
}

// slowClean is another implementation of the clean form of a line, without limits.
func slowClean(raw []byte) string {
	raw = escapes.ReplaceAll(raw, nil)
	var line []byte
	for _, seg := range bytes.SplitAfter(raw, []byte("\r")) {
		body := bytes.TrimSuffix(seg, []byte("\r"))
		shown := false
		for _, b := range body {
			switch {
			case b == '\b':
				if !shown {
					continue
				}
				_, n := utf8.DecodeLastRune(line)
				line = line[:len(line)-n]
			case b >= ' ' && b != 0x7f || b == '\t':
				if !shown {
					line = line[:0]
				}
				shown = true
				line = append(line, b)
			}
		}
	}
	return strings.Map(func(r rune) rune {
		if unseen(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(string(line), "�"))
}

var escapes = regexp.MustCompile(`\x1b\[[^\x40-\xff\x00-\x1f]*(?:[\x40-\x7e]|$)|\x1b[\]PX^_](?s:.*?)(?:\x07|\x1b\\|$)|\x1b[ -/]+[0-~]?|\x1b.|\x1b$`)

// FuzzSummary checks the promises for any output.
func FuzzSummary(f *testing.F) {
	for _, c := range loadCases(f, "dev") {
		f.Add(c.output[:min(len(c.output), 5000)], 200, 1, 7)
	}
	f.Add([]byte(`{"total": 3, "items": [1, 2, {"error": "none of these"}], "status": "bad", "more": "`+strings.Repeat("é", 900)+`"}`), 150, 0, 5)
	f.Add([]byte("\x1b[31mx\r\n\ty\x08z\xff\x00\n"), 0, 0, 1)
	f.Add(bytes.Repeat([]byte("日本語 error: "), 900), 300, 2, 3)
	f.Fuzz(func(t *testing.T, given []byte, budget, code, piece int) {
		output := bytes.Clone(given)
		for i, b := range output {
			if b == 0x1b || b == '\b' || b == '\r' {
				output[i] = '~' // TestSmallOutputIsShownWhole tests these
			}
		}
		checkPromises(t, output, budget%5000, code, max(1, piece%5000))
	})
}

// letters are words of no meaning.
var letters = []string{
	"alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet", "kilo", "lima", "mike",
	"november", "oscar", "papa", "quebec", "romeo", "sierra", "tango", "uniform", "victor", "whiskey", "xray", "yankee", "zulu",
}

// mixedLog returns a log of a service: times, ids, some errors.
func mixedLog(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "2026-11-20T03:%02d:%02d.%03dZ INFO request completed id=%08x path=/v1/items/%d status=200 dur=%dms\n",
			i/60%60, i%60, i%1000, random.Uint32(), random.IntN(1000), random.IntN(300))
		if i%200 == 0 {
			fmt.Fprintf(&b, "2026-11-20T03:00:00Z ERROR upstream %d refused the connection after %d attempts\n", random.IntN(9), i)
		}
	}
	return b.Bytes()
}

// allCases returns the outputs of testdata, one after the other, repeatedly.
func allCases(b *testing.B, size int) []byte {
	var all []byte
	for _, set := range []string{"dev", "own"} {
		for _, c := range loadCases(b, set) {
			if binaryKind(c.output) == "" {
				all = append(all, c.output...)
			}
		}
	}
	return bytes.Repeat(all, size/len(all)+1)
}

// Repeated lines, which have a fast path, give the same result as other lines.
func TestRepeatedLinesGiveSameDigest(t *testing.T) {
	lines := []string{
		"building", "step 7 of 9", "ERROR: no such file: a.c", "--- FAIL: TestThis (0.01s)", "    this_test.go:7: got 1, want 2", "FAIL", "12 passed, 1 failed",
		"-----BEGIN RSA PRIVATE KEY-----", "MIIEowIBAAKCAQEAtL5jPj1V6WlqgmD2a8gC3Zr4", "-----END RSA PRIVATE KEY-----", "", "a/b/c.go: x", "warning: deprecated", "Traceback (most recent call last):",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		options := Options{Mask: func(line string) string { return line }}
		got, want := New(options), New(options)
		for range 100 {
			line := []byte(lines[random.IntN(len(lines))] + "\n")
			times := random.IntN(3) * random.IntN(60)
			for range times {
				want.Write(line)
				want.same.known = false
			}
			all := bytes.Repeat(line, times)
			cut := random.IntN(len(all) + 1)
			got.Write(all[:cut])
			got.Write(all[cut:])
		}
		exit := Exit{Code: random.IntN(2)}
		if diff := cmp.Diff(want.Digest(exit), got.Digest(exit)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestBinaryKind(t *testing.T) {
	for p, want := range map[string]string{
		"text\n":                             "",
		"":                                   "",
		"\x1b[31mred\x1b[m é\r\n":            "",
		"a\x01b":                             "",
		strings.Repeat("file name\x00", 99):  "",
		strings.Repeat("na\xefve text ", 99): "",
		strings.Repeat("\x00", 99):           "unknown type",
		strings.Repeat("\x80\x01", 99):       "unknown type",
		"\x89PNG\r\n\x1a\n":                  "PNG image",
		"\x1f\x8b\x08":                       "gzip",
		"MZ is text, and so is BZh":          "",
		"MZ\x90\x00\x03":                     "PE",
		"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n":      "PDF",
	} {
		if got := BinaryKind([]byte(p)); got != want {
			t.Errorf("%.20q is %q, want %q", p, got, want)
		}
	}
}
