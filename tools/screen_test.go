package tools

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// needs skips a test where a program is not installed.
func needs(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip(err)
	}
}

// input types at a terminal and returns the reply.
func (c conversation) input(id, args string) answer {
	c.t.Helper()
	return callTool(c.t, c.Client, "input", `{"execId":"`+id+`",`+args+`}`)
}

// TestTerminalShowsNewLines: a session at a shell reads like its output, with the prompt, and
// without control pictures.
func TestTerminalShowsNewLines(t *testing.T) {
	c := conversation{t, connect(t, newSet(t))}
	shell := callTool(t, c.Client, "exec", `{"cmd":"PS1='$ ' bash --norc -i","tty":true}`)
	shell.has(t, map[string]any{"status": "running", "stdout": "$ ", "screen": nil, "truncated": false})
	id := shell.fields["execId"].(string)
	shell.says(t, `input {"execId": "`+id+`", "text": `)
	c.input(id, `"text":"printf '\\033[31mred\\033[m\\n'; echo two\n"`).has(t, map[string]any{
		"text": "$ printf '\\033[31mred\\033[m\\n'; echo two\nred\ntwo\n$ \n", "screen": nil})
	c.input(id, `"text":"sleep 0.6; echo slept\n","waitSeconds":30`).has(t, map[string]any{"text": "$ sleep 0.6; echo slept\nslept\n$ \n"})
	again := callTool(t, c.Client, "logs", `{"execId":"`+id+`"}`)
	again.says(t, "\n1: ", "slept")
	c.input(id, `"text":"exit 3\n"`).has(t, map[string]any{"status": "exited", "exitCode": 3, "text": "$ exit 3\nexit\n"})
}

// TestTerminalShowsTheScreen: of a program that draws it, all of it or the lines that changed.
func TestTerminalShowsTheScreen(t *testing.T) {
	c := conversation{t, connect(t, newSet(t))}
	pager := callTool(t, c.Client, "exec", `{"cmd":"printf '\\033[?1049h\\033[2J\\033[Hfirst\\r\\nsecond line of text\\r\\nthird line of text\\033[4;1H:'; read -rsn1 k; printf '\\033[1;1Hchanged\\033[K\\033[?25l'; read -rsn1 k; printf '\\033[?1049l'; echo over","tty":true,"cols":40,"rows":4}`)
	pager.has(t, map[string]any{"status": "running", "stdout": "first\nsecond line of text\nthird line of text\n:\n",
		"summary": "running, screen 40x4, cursor at line 4, column 2", "truncated": false})
	pager.says(t, " · screen 40x4, cursor at line 4, column 2\n")
	id := pager.fields["execId"].(string)
	c.input(id, `"text":"x"`).has(t, map[string]any{"text": "1: changed\n", "screen": "40x4, 1 of 4 lines changed, cursor hidden"})
	callTool(t, c.Client, "logs", `{"execId":"`+id+`"}`).has(t, map[string]any{
		"text": "changed\nsecond line of text\nthird line of text\n:\n", "screen": "40x4, cursor hidden"})
	raw := callTool(t, c.Client, "logs", `{"execId":"`+id+`","fromLine":1}`)
	raw.has(t, map[string]any{"screen": nil})
	raw.says(t, "␛[?1049h")
	c.input(id, `"text":"x"`).has(t, map[string]any{"status": "exited", "text": "over\n", "screen": nil})
}

// TestEditorAtTerminal: what vi shows is what a person sees.
func TestEditorAtTerminal(t *testing.T) {
	needs(t, "vi")
	c := conversation{t, connect(t, newSet(t))}
	vi := callTool(t, c.Client, "exec", `{"cmd":"printf 'one\\ntwo\\n' >file; vi file","tty":true}`)
	vi.says(t, "\none\ntwo\n~\n", " · screen 80x24, cursor at line 1, column 1\n")
	id := vi.fields["execId"].(string)
	typed, _ := c.input(id, `"text":"ithree "`).fields["text"].(string)
	if !strings.HasPrefix(typed, "1: three one\n") || strings.Contains(typed, "two") {
		t.Error(typed)
	}
	c.input(id, `"text":"\u001b:wq\r"`).has(t, map[string]any{"status": "exited", "exitCode": 0})
	callTool(t, c.Client, "exec", `{"cmd":"cat file"}`).has(t, map[string]any{"stdout": "three one\ntwo\n"})
}

// TestTerminalMasksSecrets: in lines, in rows, where a row wraps, and in rows that changed.
func TestTerminalMasksSecrets(t *testing.T) {
	s := newSet(t)
	s.Manager.Secrets = secrets()
	c := conversation{t, connect(t, s)}
	print := callTool(t, c.Client, "exec", `{"cmd":"echo `+setting+`; read x; printf '\\033[H\\033[2J%s.\\n%s\\n' `+token+` `+setting+`; read x; printf '\\033[4;1H`+setting+`\\033[9;1H'; read x","tty":true,"cols":20,"rows":9}`)
	id := print.fields["execId"].(string)
	replies := []answer{print, c.input(id, `"text":"\n"`), callTool(t, c.Client, "logs", `{"execId":"`+id+`"}`), c.input(id, `"text":"\n"`)}
	for i, a := range replies {
		a.fields["cmd"] = nil
		seen := fmt.Sprint(a.fields["stdout"], a.fields["text"])
		for _, half := range []string{setting, setting[:9], setting[9:], token[:20], token[20:]} {
			if strings.Contains(seen, half) {
				t.Errorf("reply %d has %q: %s", i, half, seen)
			}
		}
		if !strings.Contains(seen, "‹secret›") {
			t.Errorf("reply %d: %s", i, a.text)
		}
	}
}
