package exectag

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scan returns the commands of a text that arrives in parts of a size, 0: as one. It fails if
// the pieces are not the text.
func scan(t testing.TB, text string, size int) (commands []string) {
	t.Helper()
	var s Scanner
	var pieces []Piece
	for rest := []byte(text); len(rest) > 0; {
		n := len(rest)
		if size > 0 {
			n = min(n, size)
		}
		pieces = append(pieces, s.Feed(rest[:n])...)
		rest = rest[n:]
	}
	var all strings.Builder
	for _, p := range append(pieces, s.End()...) {
		all.WriteString(p.Text)
		if p.Command != "" {
			commands = append(commands, p.Command)
			if !strings.HasPrefix(p.Text, "<exec") || !strings.HasSuffix(p.Text, ">") || !strings.Contains(p.Text, p.Command) {
				t.Errorf("%q has the text %q", p.Command, p.Text)
			}
		}
	}
	if all.String() != text {
		t.Errorf("the pieces of %q are %q", text, all.String())
	}
	return commands
}

const ticks3, tildes = "```", "~~~"

// TestLiveTags: which tags of a text are live, however the text is cut.
func TestLiveTags(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"none":              {"no tag", nil},
		"one":               {"Let me look:\n\n<exec ls -la>\n", []string{"ls -la"}},
		"at the end":        {"<exec ls>", []string{"ls"}},
		"two in a line":     {"<exec ls> <exec cat go.mod>", []string{"ls", "cat go.mod"}},
		"adjacent":          {"<exec ls><exec pwd>", []string{"ls", "pwd"}},
		"within a sentence": {"I run <exec go test> now.", []string{"go test"}},
		"in a list":         {"1. <exec ls>\n- <exec pwd>\n    <exec id>\n", []string{"ls", "pwd", "id"}},
		"blanks":            {"<exec \t ls  >", []string{"ls"}},
		"CR LF":             {"<exec ls>\r\n<exec pwd>\r\n", []string{"ls", "pwd"}},
		"not UTF-8":         {"\xff<exec echo \xff>\xfe", []string{"echo \xff"}},

		// What is no tag.
		"no blank":           {"<exec>ls</exec> <execute ls>", nil},
		"other case":         {"<EXEC ls>", nil},
		"empty":              {"<exec > <exec   >", nil},
		"unclosed line":      {"<exec ls\n<exec pwd>\n", []string{"pwd"}},
		"unclosed at end":    {"<exec ls", nil},
		"only the beginning": {"<exec", nil},
		"begun at the end":   {"<exec echo 1>a <exec echo 2>b <", []string{"echo 1", "echo 2"}},
		"begun again":        {"<e<ex<exec<exec ls>", []string{"ls"}},
		"after a beginning":  {"<exe <exec ls>", []string{"ls"}},
		"nested":             {"<exec <exec a>> <exec b>", []string{"b"}},
		"nested in quotes":   {"<exec echo '<exec a>' > <exec b>", []string{"b"}},
		"escaped":            {`\<exec a> \\<exec b>`, []string{"b"}},
		"doubled":            {"<<exec a>", nil},
		"too long":           {"<exec " + strings.Repeat("a", maxTag) + "> <exec b>\n<exec c>", []string{"c"}},
		"long":               {"<exec " + strings.Repeat("a", 1<<20) + ">", []string{strings.Repeat("a", 1<<20)}},

		// The end of a tag.
		"quoted >":              {`<exec echo "a > b">`, []string{`echo "a > b"`}},
		"quoted ' and >":        {`<exec awk '$1 > 2 {print "x>"}' f>`, []string{`awk '$1 > 2 {print "x>"}' f`}},
		"escaped quote":         {`<exec echo "a\" > b">`, []string{`echo "a\" > b"`}},
		"escaped >":             {`<exec echo a \> b\>c>`, []string{`echo a \> b\>c`}},
		"ANSI quote":            {`<exec echo $'it\'s > x'>`, []string{`echo $'it\'s > x'`}},
		"redirected":            {"<exec ls > out.txt>", []string{"ls > out.txt"}},
		"redirected close":      {"<exec ls >out.txt>", []string{"ls >out.txt"}},
		"appended":              {"<exec ls >> out.txt> <exec a >>b>", []string{"ls >> out.txt", "a >>b"}},
		"redirected errors":     {"<exec make 2>&1> <exec make 2>/dev/null> <exec make 2> log>", []string{"make 2>&1", "make 2>/dev/null", "make 2> log"}},
		"both redirected":       {"<exec make &>log> <exec make &> done", []string{"make &>log", "make &"}},
		"redirected in a pipe":  {"<exec make 2>&1 | tail -3 > x>.", []string{"make 2>&1 | tail -3 > x"}},
		"blank at the end":      {"<exec ls >\n<exec pwd >  \n<exec id >", []string{"ls", "pwd", "id"}},
		"blank, then a tag":     {"<exec ls > <exec pwd>", []string{"ls", "pwd"}},
		"redirected, unclosed":  {"<exec ls > out.txt\n", nil},
		"digit at the end":      {"<exec seq 1 3> gives 1 -> 3", []string{"seq 1 3"}},
		"2 at the end":          {"<exec head -n 2> shows it\n<exec tail -n 2> <exec pwd>", []string{"head -n 2", "tail -n 2", "pwd"}},
		"2 after another":       {"<exec ls > a 2> b\n<exec pwd>", []string{"pwd"}},
		"digit, then a mark":    {"<exec echo 1>, (<exec echo 2>). `<exec x>` **<exec echo 3>**", []string{"echo 1", "echo 2", "echo 3"}},
		"digit, then a letter":  {"<exec echo 1>th\n<exec echo 2>nd <exec echo 3>/x\n", []string{"echo 1", "echo 2", "echo 3"}},
		"digit, adjacent":       {"<exec echo 1><exec echo 2>", []string{"echo 1", "echo 2"}},
		"blank, adjacent":       {"<exec echo ><exec pwd>", []string{"echo", "pwd"}},
		"nothing, then a tag":   {"<exec > <exec> <exec pwd>", []string{"pwd"}},
		"apostrophe":            {"<exec echo don't>\n<exec ls>", []string{"echo don't", "ls"}},
		"apostrophe, unclosed":  {"<exec echo don't\nwon't> <exec ls>", []string{"ls"}},
		"quote, then no >":      {"<exec echo \"a > b\n", nil},
		"no quote across lines": {"<exec echo 'a\nb'>\n", nil},
		"comparison after it":   {"<exec wc -l f> is > 3, <exec ls>", []string{"wc -l f", "ls"}},

		// Fences.
		"fence":                   {ticks3 + "\n<exec a>\n" + ticks3 + "\n<exec b>", []string{"b"}},
		"fence with a language":   {ticks3 + "sh <exec a>\n<exec a>\n" + ticks3 + "  \n<exec b>", []string{"b"}},
		"tildes":                  {tildes + " `x`\n<exec a>\n" + ticks3 + "\n<exec a>\n" + tildes + "~\n<exec b>", []string{"b"}},
		"longer fence":            {ticks3 + "``\n" + ticks3 + "\n<exec a>\n" + ticks3 + "`` \n<exec b>", []string{"b"}},
		"fence of other text":     {ticks3 + "\n" + ticks3 + "sh\n<exec a>\n" + ticks3 + "\n<exec b>", []string{"b"}},
		"unclosed fence":          {ticks3 + "\n<exec a>\n\n\n<exec b>", nil},
		"fence in a list":         {"- " + ticks3 + "\n  <exec a>\n  " + ticks3 + "\n1. " + ticks3 + "\n<exec a>\n   " + ticks3 + "\n<exec b>", []string{"b"}},
		"fence of a quote":        {"> " + ticks3 + "\n> <exec a>\n> " + ticks3 + "\n<exec b>", []string{"b"}},
		"deeper fence within":     {ticks3 + "\n     " + ticks3 + "\n<exec a>\n" + ticks3 + "\n<exec b>", []string{"b"}},
		"list marker within":      {ticks3 + "\n- " + ticks3 + "\n<exec a>\n" + ticks3 + "\n<exec b>", []string{"b"}},
		"indented by a tab":       {"\t" + ticks3 + "\n\t<exec a>\n\t" + ticks3 + "\n<exec b>", []string{"b"}},
		"fence in a line":         {ticks3 + "a" + ticks3 + " <exec a>\n<exec b>", []string{"b"}},
		"two backticks, no fence": {"``\n\n<exec b>", []string{"b"}},
		"no fence after a dash":   {"-" + ticks3 + "x" + ticks3 + "\n<exec b>", []string{"b"}},

		// Inline code.
		"code":                  {"Use `<exec a>` or <exec b>", []string{"b"}},
		"code of two":           {"``<exec a> ` <exec a>`` <exec b>", []string{"b"}},
		"code over lines":       {"`x\n<exec a>\n` <exec b>", []string{"b"}},
		"unclosed code":         {"`<exec a>\n<exec a>\n\n<exec b>", []string{"b"}},
		"escaped backtick":      {"\\`<exec b>", []string{"b"}},
		"backslash in code":     {"`\\` <exec b>", []string{"b"}},
		"backticks in a tag":    {"<exec echo `date`> <exec b>", []string{"echo `date`", "b"}},
		"backtick in an open":   {"<exec a `\n<exec a>\n\n<exec b>", []string{"b"}},
		"backticks in a fence":  {ticks3 + "\n`\n" + ticks3 + "\n<exec b>", []string{"b"}},
		"backticks in a result": {"=== EXEC SUCCESSFUL: a ===\n`\n=== END EXEC ===\n<exec b>", []string{"b"}},

		// Quotes and results.
		"quote":              {"> <exec a>\n > > <exec a>\n<exec b>", []string{"b"}},
		"result":             {"=== EXEC SUCCESSFUL: ls ===\nOutput:\n<exec a>\n" + ticks3 + "\n=== END EXEC ===\n<exec b>", []string{"b"}},
		"failed result":      {"=== EXEC FAILED: ls ===\n<exec a>\n=== END EXEC ===\n<exec b>", []string{"b"}},
		"error":              {"=== ERROR: EXEC_VALIDATION ===\nMessage: x\nCommand: <exec a>\n=== END ERROR ===\n<exec b>", []string{"b"}},
		"file":               {"=== FILE: x ===\n<exec a>\n=== END FILE ===\n<exec b>", []string{"b"}},
		"quoted result":      {"> === EXEC SUCCESSFUL: ls ===\n> <exec a>\n=== END EXEC ===\n<exec a>\n> === END EXEC ===\n<exec b>", []string{"b"}},
		"end of another":     {"=== EXEC SUCCESSFUL: ls ===\n=== END ERROR ===\n<exec a>\n=== END EXEC ===\n<exec b>", []string{"b"}},
		"unclosed result":    {"=== EXEC SUCCESSFUL: ls ===\n<exec a>\n\n<exec b>", nil},
		"cut error":          {"Command: <exec a>\n=== END ERROR ===\n<exec b>", []string{"b"}},
		"line of the guide":  {"=== COMMAND: <exec a> ===\n<exec b>", []string{"b"}},
		"no frame":           {"=== RUN TestX\n=== EXECUTION: x ===\n====\n=== EXEC\n<exec b>", []string{"b"}},
		"result in a fence":  {ticks3 + "\n=== EXEC SUCCESSFUL: ls ===\n" + ticks3 + "\n<exec b>", []string{"b"}},
		"long first line":    {"=== EXEC SUCCESSFUL: " + strings.Repeat("a ", 100) + "===\n<exec a>\n=== END EXEC ===\n<exec b>", []string{"b"}},
		"END and more":       {"=== EXEC SUCCESSFUL: a ===\n=== END EXEC ===" + strings.Repeat(" ", 100) + "x\n<exec a>\n=== END EXEC ===  \n<exec b>", []string{"b"}},
		"END in a long line": {"=== EXEC SUCCESSFUL: a ===\n=== END EXEC === " + strings.Repeat("x ", 100) + "\n<exec a>", nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{0, 1, 3, 7} {
				if len(tt.text) > 1<<19 && size > 0 {
					break // it takes long
				}
				got := scan(t, tt.text, size)
				if diff := cmp.Diff(append([]string{}, tt.want...), append([]string{}, got...)); diff != "" {
					t.Errorf("%.300q in parts of %d bytes (- want, + got):\n%s", tt.text, size, diff)
				}
			}
		})
	}
}

// TestTextIsNotHeldBack: all text but a possible tag is returned at once, and a possible tag at
// the end of its line.
func TestTextIsNotHeldBack(t *testing.T) {
	var s Scanner
	for _, step := range []struct{ feed, want string }{
		{"plain", "plain"}, {" `x", " `x"}, {"` <", "` "}, {"b", "<b"}, {"<exec", ""}, {"ute", "<execute"},
		{" <exec ls", " "}, {" -la", ""}, {">", "<exec ls -la>"}, {"\n" + ticks3, "\n" + ticks3},
		{"\n<exec a", "\n<exec a"}, {"\n" + ticks3 + "\n=== E", "\n" + ticks3 + "\n=== E"}, {"\n<exec b c", "\n"}, {"\nd", "<exec b c\nd"},
		{" <exec ls >", " "}, {" ", ""}, {"x", ""}, {">", "<exec ls > x>"},
	} {
		var got strings.Builder
		for _, p := range s.Feed([]byte(step.feed)) {
			got.WriteString(p.Text)
		}
		if got.String() != step.want {
			t.Errorf("after %q: %q, want %q", step.feed, got.String(), step.want)
		}
	}
}

// FuzzScanner: the pieces are the text, and how it is cut makes no difference. What looks like
// no tag has none.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{"<exec ls>", "a `<exec b>` c\n\n<exec d > e>", ticks3 + "\n<exec a>\n" + ticks3, "<exec <exec a>>", "=== EXEC X ===\n<exec a>\n=== END EXEC ===", "<exec a 2>&1 'b\">\n> - 1. " + ticks3, "\\\\<exec a\\>b>\r\n"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		whole := scan(t, text, 0)
		for _, n := range []int{1, 1 + (size&0xff)%17} {
			if diff := cmp.Diff(whole, scan(t, text, n)); diff != "" {
				t.Errorf("in parts of %d bytes:\n%s", n, diff)
			}
		}
		if len(whole) > strings.Count(text, "<exec") {
			t.Errorf("%d tags", len(whole))
		}
		for _, c := range whole {
			if strings.Contains(c, "\n") || strings.Contains(c, "<exec ") {
				t.Errorf("the command %q", c)
			}
		}
	})
}
