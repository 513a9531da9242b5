package tools

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/sandbox"
)

func TestOnlyAClearYesApproves(t *testing.T) {
	accept := func(content any) *mcp.ElicitationResult {
		return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: "accept", Content: content}}
	}
	says := func(answer string) *mcp.ElicitationResult { return accept(map[string]any{"answer": answer}) }
	answers := answersFor(ExecArgs{})
	later := time.Now().Add(time.Hour)
	for name, test := range map[string]struct {
		result  *mcp.ElicitationResult
		answers []string
		until   time.Time
		want    sandbox.Approval
		hint    string
	}{
		"once":     {says(answerOnce), answers, later, sandbox.ApprovedOnce, ""},
		"session":  {says(answerSession), answers, later, sandbox.ApprovedForSession, ""},
		"deny":     {says(answerDeny), answers, later, "", "denied it"},
		"late":     {says(answerOnce), answers, time.Now(), "", "in time"},
		"nothing":  {nil, answers, later, "", "did not return"},
		"declined": {&mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: "decline", Content: map[string]any{"answer": answerOnce}}}, answers, later, "", "denied it"},
		"closed":   {&mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: "cancel"}}, answers, later, "", "no answer"},
		"no verb":  {&mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Content: map[string]any{"answer": answerOnce}}}, answers, later, "", "was not offered"},
		"other":    {says("yes"), answers, later, "", "was not offered"},
		"case":     {says("Allow once"), answers, later, "", "was not offered"},
		"empty":    {accept(map[string]any{}), answers, later, "", "was not offered"},
		"no map":   {accept(answerOnce), answers, later, "", "was not offered"},
		"no text":  {accept(map[string]any{"answer": true}), answers, later, "", "was not offered"},
		"list":     {accept(map[string]any{"answer": []any{answerOnce}}), answers, later, "", "was not offered"},
		"refused":  {says(answerSession), answersFor(ExecArgs{Stdin: "x"}), later, "", "was not offered"},
	} {
		q := &question{denial: sandbox.Errorf(sandbox.ExecValidation, "Allowed: ls.", "command not in whitelist: rm"), answers: test.answers, until: test.until}
		got, err := q.verdict(test.result)
		f := Failure{}
		if err != nil {
			f = FailureOf(err)
		}
		if got != test.want || (err == nil) != (test.want != "") || !strings.Contains(f.Hint, test.hint) {
			t.Errorf("%s: %q, %+v", name, got, f)
		}
		if err != nil && (f.Code != sandbox.ExecValidation || f.Error != "command not in whitelist: rm" || !strings.HasSuffix(f.Hint, "Allowed: ls.")) {
			t.Errorf("%s: %+v is not the denial", name, f)
		}
	}
}

// TestUserSeesTheWholeCommand: all text of the model is behind bars; if it cannot be shown whole,
// the user is not asked.
func TestUserSeesTheWholeCommand(t *testing.T) {
	box := sandbox.Description{ID: "b-1", Image: "alpine", Workspace: "/home/me/src\nAllowed: yes"}
	denial := sandbox.Errorf(sandbox.ExecValidation, "", "command not in whitelist: %s", "'a\nb'")
	args := ExecArgs{
		Cmd: "rm -rf x\n\nNot allowed: nothing" + strings.Repeat(" ", 300) + "; rm -rf y", Workdir: "sub\nWhere: nowhere",
		Env: map[string]string{"B": "2\nIts input:", "A": "1"}, Stdin: "one\ntwo\n",
	}
	const ours = "The model wants|Not allowed: command|Where: container b-1 of image alpine|In the directory:|With these|Its input:"
	text, ok := askMessage(box, args, denial)
	if !ok {
		t.Fatal("the user is not asked")
	}
	var model []string
	heads := strings.Split(ours, "|")
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if n := len([]rune(line)); n > 400 {
			t.Errorf("a line of %d characters", n)
		}
		if rest, barred := strings.CutPrefix(line, "│ "); barred {
			model = append(model, rest)
		} else if rest, on := strings.CutPrefix(line, "┆ "); on {
			model[len(model)-1] += rest
		} else if line != "" {
			if len(heads) == 0 || !strings.HasPrefix(line, heads[0]) {
				t.Fatalf("%q is at the margin", line)
			}
			heads = heads[1:]
		}
	}
	want := args.Cmd + "\n" + args.Workdir + "\nA=1\nB=2\nIts input:\none\ntwo"
	if got := strings.Join(model, "\n"); got != want || len(heads) > 0 {
		t.Errorf("shown: %q\nwant:  %q\nlacks %q\n%s", got, want, heads, text)
	}
	for name, args := range map[string]ExecArgs{
		"long":          {Cmd: "rm " + strings.Repeat("x", maxAsked)},
		"many lines":    {Cmd: "rm \\\n" + strings.Repeat("x \\\n", maxAskedLines)},
		"escape":        {Cmd: "rm", Stdin: "\x1b[2J"},
		"return":        {Cmd: "rm", Env: map[string]string{"A": "x\ry"}},
		"direction":     {Cmd: "rm", Workdir: "\u202e"},
		"zero width":    {Cmd: "rm \u200b"},
		"wide space":    {Cmd: "rm\u00a0x"},
		"not UTF-8":     {Cmd: "rm", Stdin: "\xff"},
		"long together": {Cmd: "rm", Stdin: strings.Repeat("x", maxAsked/2), Env: map[string]string{strings.Repeat("y", maxAsked/2): ""}},
	} {
		if text, ok := askMessage(box, args, denial); ok {
			t.Errorf("%s is shown: %q", name, text)
		}
	}
	for _, args := range []ExecArgs{{Cmd: "sh", Background: true}, {Cmd: "sh", TTY: true}} {
		if text, _ := askMessage(box, args, denial); !strings.Contains(text, "stays open") || fmt.Sprint(answersFor(args)) != "[allow once deny]" {
			t.Errorf("the question does not mention the input that follows:\n%s", text)
		}
	}
}
