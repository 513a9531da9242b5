package summary

import (
	"testing"
	"unicode"
)

// FuzzUnwrapped checks that no line, however broken its object is, makes a rule panic or
// leaves something in the text that controls a terminal or begins a line.
func FuzzUnwrapped(f *testing.F) {
	for _, text := range []string{
		`{"Output":"--- FAIL: \u001b[31mTestX\n"}`, `{"ts":1,"a":{"b":[1,"}"]},"msg":"x\"y"}`, `fatal: [web3]: FAILED! => {"changed": true, "msg": "no"}`,
		`{"a":`, `{"a"`, `{"`, `{"a":"b"`, `{"a":"b" }x`, `{"Output":"`, ` => {"`, `{"a":"\ud800","Output":"\u202e"}`, "========", "2026-11-20 10:00:01 ERROR x",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		clean := string(tidy([]byte(text)))
		for _, r := range clean {
			if unicode.IsControl(r) && r != '\t' {
				return // a clean line has none
			}
		}
		for _, r := range shownForm(clean) {
			if forbidden(r) || r == '\n' {
				t.Errorf("%q has %q", shownForm(clean), r)
			}
		}
	})
}
