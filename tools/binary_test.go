package tools

import (
	"strings"
	"testing"
)

// TestBinaryOutputIsOneLine: none of its bytes are shown, and what it is.
func TestBinaryOutputIsOneLine(t *testing.T) {
	c := connect(t, newSet(t))
	png := callTool(t, c, "exec", `{"cmd":"printf '\\211PNG\\r\\n\\032\\n'; head -c 992 /dev/zero; echo note >&2"}`)
	png.has(t, map[string]any{"exitCode": 0, "stderr": "note\n", "truncated": true, "omittedBytes": 1000, "omittedLines": nil,
		"summary": "exit 0, stdout is binary, 1,000 bytes, PNG image"})
	png.says(t, " · stdout is binary, 1,000 bytes, PNG image\n", "\nnote\n")
	if s, ok := png.fields["stdout"]; ok && s != "" || strings.ContainsAny(png.text, "␀␚") || strings.Contains(png.text, "left out") {
		t.Errorf("%s\n%s", png.json, png.text)
	}
	large := callTool(t, c, "exec", `{"cmd":"printf '\\177ELF'; head -c 20000 /dev/zero; head -c 20000 /dev/zero >&2"}`)
	large.says(t, "stdout is binary, 20,004 bytes, ELF; stderr is binary, 20,000 bytes, unknown type")
	large.has(t, map[string]any{"omittedBytes": 40004})
	if strings.Contains(large.text, "␀") || len(large.text) > 600 {
		t.Error(large.text)
	}
}

// TestTextWithControlBytesIsShown: a few of them, NUL between names, and other encodings.
func TestTextWithControlBytesIsShown(t *testing.T) {
	c := connect(t, newSet(t))
	for cmd, want := range map[string]string{
		`printf 'a\\001b\\000\\000\\n'`:         "a␁b␀␀\n",
		`printf 'one\\000two\\000three\\000'`:   "one␀two␀three␀",
		`printf 'caf\\351\\n%%PDF, MZ\\n'`:      "caf�\n%PDF, MZ\n",
		`printf '%%PDF \\303\\251'`:             "%PDF é",
		`printf '\\033[31mred\\033[m\\a\\f\\b'`: "␛[31mred␛[m␇␌␈",
	} {
		callTool(t, c, "exec", `{"cmd":"`+cmd+`"}`).has(t, map[string]any{"stdout": want, "truncated": false})
	}
}
