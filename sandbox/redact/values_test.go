package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// hard are values with characters that some program escapes.
var hard = []string{
	"kP9vWx3LmQ8sTz4RbN7yHc2D",
	`p<ss>&"w0rd'/\+ =?#%`,
	"naïve-пароль-🔑-漢字",
	"tab\tand\nnewline in it",
	"$HOME `id` !x {a,b} ~",
	"s3cr&t/9",
}

func plainJSON(v string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(v)
	return strings.TrimSpace(b.String())
}

// pythonJSON encodes a text like json.dumps of Python.
func pythonJSON(v string) string { return asciiJSON(plainJSON(v)) }

func htmlJSON(v string) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// lowerHex writes the digits of escapes in lower case.
func lowerHex(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(s[i+1:i+3]))
		}
	}
	return string(b)
}

// bash returns the output of a bash script that has the value v in its variable V.
func bash(t *testing.T, locale, script, v string) string {
	t.Helper()
	cmd := exec.Command("bash", "-c", script)
	cmd.Env = []string{"V=" + v, "LC_ALL=" + locale}
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("no bash: %v", err)
	}
	return string(out)
}

func TestEscapedValueIsMasked(t *testing.T) {
	for _, v := range hard {
		r := &Redactor{Values: []string{v}}
		inJSON := plainJSON(plainJSON(v))
		forms := map[string]string{
			"JSON": plainJSON(v), "JSON for HTML": htmlJSON(v), "JSON in ASCII": pythonJSON(v), "JSON in JSON": inJSON,
			"JSON for HTML in JSON": htmlJSON(htmlJSON(v)), "JSON in ASCII in JSON": plainJSON(pythonJSON(v)),
			"JSON with slashes": strings.ReplaceAll(plainJSON(v), "/", `\/`),
			"query":             url.QueryEscape(v), "path": url.PathEscape(v),
			"query in lower case": lowerHex(url.QueryEscape(v)), "path in lower case": lowerHex(url.PathEscape(v)),
			"bash": bash(t, "C.UTF-8", `declare -p V`, v), "bash in ASCII": bash(t, "C", `declare -p V`, v),
			"%q": bash(t, "C.UTF-8", `printf %q "$V"`, v), "%q in ASCII": bash(t, "C", `printf %q "$V"`, v),
			"@Q": bash(t, "C.UTF-8", `printf %s "${V@Q}"`, v), "trace": bash(t, "C", `set -x; exec 2>&1; : "$V"`, v),
			"set": bash(t, "C", "set | grep -a -A1 ^V=", v), "Go": fmt.Sprintf("%q", v), "Go in ASCII": fmt.Sprintf("%+q", v),
			"Python's shlex": "'" + strings.ReplaceAll(v, "'", `'"'"'`) + "'",
		}
		for name, form := range forms {
			text := "a " + form + " b"
			got := r.Text(text)
			if !strings.Contains(got, "‹secret›") || len(strings.ReplaceAll(got, "‹secret›", "")) > len(text)-len(v)*3/4 {
				t.Errorf("%s of %q: %q shows as %q", name, v, text, got)
			}
			for n := range len(v) - 5 {
				if part := v[n : n+6]; strings.Contains(got, part) {
					t.Errorf("%s of %q: %q has %q", name, v, got, part)
				}
			}
		}
	}
}

// A value in the base64 of a longer text is masked, whatever is before and after it.
func TestBase64OfValueIsMasked(t *testing.T) {
	for _, v := range append([]string{"sixsix", "a~?>~??"}, hard...) {
		r := &Redactor{Values: []string{v}}
		for before := range 7 {
			for behind := range 4 {
				text := strings.Repeat("b", before) + v + strings.Repeat("e", behind)
				for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
					code := e.EncodeToString([]byte(text))
					got := r.Text(`"` + code + `"`)
					// The rest must not reveal a byte of the value.
					want := e.EncodeToString([]byte(strings.Repeat("b", before)))
					if !strings.Contains(got, "‹secret›") || len(got) > len(`"‹secret›"`)+len(want)+8 {
						t.Errorf("%q in %q: %q", v, text, got)
					}
				}
			}
		}
	}
}

// Programs encode JSON in base64, such as a part of a token or a Kubernetes secret.
func TestBase64OfJSONOfValueIsMasked(t *testing.T) {
	for name, form := range map[string]func(string) string{
		"JavaScript": plainJSON, "Go": htmlJSON, "Python": pythonJSON,
		"PHP": func(v string) string { return strings.ReplaceAll(pythonJSON(v), "/", `\/`) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range append([]string{`kP9v"Wx3$L m'Q8sTz4RbN7/yHc2D+e`}, hard...) {
				r := &Redactor{Values: []string{v}}
				for shift := range 3 {
					head := `{"` + strings.Repeat("a", shift+1) + `": `
					for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
						code := e.EncodeToString([]byte(head + form(v) + `}`))
						got := r.Text("x " + code + " y")
						if want := e.EncodeToString([]byte(head)); !strings.Contains(got, "‹secret›") || len(got) > len("x ‹secret› y")+len(want)+8 {
							t.Errorf("%q in %q: %q", v, code, got)
						}
					}
				}
			}
		})
	}
}

// The code is the output of Python 3, not of a model of it.
func TestBase64OfJSONOfPythonIsMasked(t *testing.T) {
	const code = "eyJrIjogIm5hXHUwMGVmdmUtXCJcdWQ4M2RcdWRkMTFcdTAwN2ZcblwiIn0="
	r := &Redactor{Values: []string{"naïve-\"🔑\x7f\n\""}}
	if got, want := r.Text(code+"\n"), code[:9]+"‹secret›In0=\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Base64 is wrapped into lines, also within a value.
func TestWrappedBase64OfValueIsMasked(t *testing.T) {
	const v = "kP9vWx3LmQ8sTz4RbN7yHc2D"
	r := &Redactor{Values: []string{v}}
	for _, width := range []int{64, 76} {
		for _, end := range []string{"\n", "\r\n"} {
			for before := 20; before < 80; before++ {
				code := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("b", before) + v + strings.Repeat("e", 99)))
				whole := code
				var b strings.Builder
				for len(code) > width {
					b.WriteString(code[:width] + end)
					code = code[width:]
				}
				got := r.Text("x\n" + b.String() + code + end)
				if !strings.Contains(got, "‹secret›") || len(strings.NewReplacer(end, "", "‹secret›", "").Replace(got)) > len(whole)-30 {
					t.Fatalf("%d bytes before it, lines of %d: %q", before, width, got)
				}
			}
		}
	}
}

// A program may escape base64, also that of a value that needs no escapes itself.
func TestEscapedBase64OfValueIsMasked(t *testing.T) {
	const v = "kP9vWx3Lm>~?zQ8sTz4~>>RbN7y???Hc2D"
	for name, form := range map[string]func(string) string{
		"query":             url.QueryEscape,
		"query, lower case": func(s string) string { return lowerHex(url.QueryEscape(s)) },
		"JSON of PHP":       func(s string) string { return strings.ReplaceAll(plainJSON(s), "/", `\/`) },
		"HTML":              func(s string) string { return strings.ReplaceAll(s, "+", "&#43;") },
		"hex":               func(s string) string { return strings.ReplaceAll(s, "+", `\x2b`) },
		"unicode":           func(s string) string { return strings.ReplaceAll(s, "+", `\u002b`) },
	} {
		t.Run(name, func(t *testing.T) {
			for shift := range 3 {
				r := &Redactor{Values: []string{v}}
				text := "a " + form(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("q", shift)+v))) + " b"
				if got := r.Text(text); !strings.Contains(got, "‹secret›") || len(got) > len("a ")+8+len("‹secret›")+len(" b") {
					t.Errorf("%q shows as %q", text, got)
				}
			}
		})
	}
}

// The lines may be short and have any text before and after the base64, also
// characters of base64 and text that differs from line to line.
func TestBase64WithTextAroundItsLinesIsMasked(t *testing.T) {
	formats := []string{
		"%[2]s\n", "%6[1]d\t%[2]s\n", "%[1]d:%[2]s\n", "2026-01-01 12:00:01 INF %[2]s\n", "12:00:01.123456 INF %[2]s\n",
		"\x1b[32m%[2]s\x1b[0m\n", "line%[1]d %[2]s %[1]d/9\n", `%[2]s\n`, `%[2]s\r\n`, `%[2]s\\n`, "%[2]s%%0A", "%[2]s%%0d%%0a", "%[2]s&#10;", "%[2]s&#xA;", "/0123456789+0123456789+0123456789+0123456789/ok=%[2]s\n",
	}
	for _, prefix := range []string{"  ", "\t", "# ", "> ", "| ", "    - ", "+", "-", "/", "//", "x", "[0m", "<b>", "key=", "INFO ab ", "1\t", `"`, "<td>", "data: "} {
		formats = append(formats, prefix+"%[2]s\n")
	}
	for _, suffix := range []string{
		`"`, `" +`, `",`, `\`, " |", ";", "\r", `\n"`, `\n" +`, `\n",`, `\n`, "<br>", "<br/>", "</p>", "</td>", " ok", " (b)", "%%0A", "&#10;", "=0A=", "=", "; //", `" \`, "/+abcdef",
	} {
		formats = append(formats, "  \"%[2]s"+suffix+"\n")
	}
	for _, format := range formats {
		t.Run(strconv.Quote(format), func(t *testing.T) {
			for _, v := range []string{"kP9vWx3LmQ8sTz4RbN7yHc2D", `kP9v"Wx3$L m'Q8sTz4RbN7/yHc2D+e`} {
				r := &Redactor{Values: []string{v}}
				for _, width := range []int{2, 4, 7, 10, 12, 16, 20, 28, 36, 40, 64, 76} {
					for before := range 4 {
						code := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("q", before*17) + v + strings.Repeat("z", 40)))
						var b strings.Builder
						for n := 1; code != ""; n++ {
							w := min(width, len(code))
							fmt.Fprintf(&b, format, n, code[:w])
							code = code[w:]
						}
						got := r.Text("data:\n" + b.String() + "end\n")
						if !strings.Contains(got, "‹secret›") || !strings.HasSuffix(got, "end\n") {
							t.Fatalf("lines of %d, %d before it: %q", width, before*17, got)
						}
						for shift := range 3 {
							inner := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), v...))
							for i := 2; i+5 < len(inner); i++ {
								if strings.Contains(got, inner[i:i+4]) {
									t.Fatalf("lines of %d, %d before it: %q has %q", width, before*17, got, inner[i:i+4])
								}
							}
						}
					}
				}
			}
		})
	}
}

// Text around base64 beyond the bounds, and lines of one character, are not skipped.
func TestBase64FarFromLineEndsIsNotJoined(t *testing.T) {
	const v = "kP9vWx3LmQ8sTz4RbN7yHc2D"
	r := &Redactor{Values: []string{v}}
	code := base64.StdEncoding.EncodeToString([]byte(v))
	for name, test := range map[string]struct {
		between string
		masked  bool
	}{
		"prefix of 48": {"\n" + strings.Repeat("x", maxPrefix), true},
		"prefix of 49": {"\n" + strings.Repeat("x", maxPrefix+1), false},
		"suffix of 8":  {strings.Repeat("x", maxSuffix) + "\n", true},
		"suffix of 9":  {strings.Repeat("x", maxSuffix+1) + "\n", false},
		"empty line":   {"\n\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			text := code[:15] + test.between + code[15:] + "\n"
			if got := r.Text(text); strings.Contains(got, "‹secret›") != test.masked || !test.masked && got != text {
				t.Errorf("%q shows as %q", text, got)
			}
		})
	}
	one := strings.Join(strings.Split(code, ""), "\n") + "\n"
	if got := r.Text(one); got != one {
		t.Errorf("%q shows as %q", one, got)
	}
}

// Each of many values with the same beginning is found behind a line end within it.
func TestWrappedBase64OfSimilarValuesIsMasked(t *testing.T) {
	r := &Redactor{}
	for i := range 100 {
		r.Values = append(r.Values, fmt.Sprintf("common-beginning-%03d-Q8sTz4RbN7y", i))
	}
	for _, v := range r.Values {
		code := base64.StdEncoding.EncodeToString([]byte(v))
		if got := r.Text(code[:8] + "\n" + code[8:] + "\n"); got != "‹secret›\n" {
			t.Errorf("%q shows as %q", v, got)
		}
	}
}

// Base64 that ends with its value at the end of a line leaves the next line unmasked.
func TestLinesAfterBase64StayUnchanged(t *testing.T) {
	for _, v := range []string{"kP9vWx3LmQ8sTz4RbN7yHc2D", "kP9vWx3LmQ8sTz4RbN7yHc2Dx", "kP9vWx3LmQ8sTz4RbN7yHc2Dxy"} {
		r := &Redactor{Values: []string{v}}
		text := "token: " + base64.StdEncoding.EncodeToString([]byte(v)) + "\n" + ordinary
		if got, want := r.Text(text), "token: ‹secret›\n"+ordinary; got != want {
			t.Errorf("%q shows as %q", text, got)
		}
	}
}

// One program may escape the output of another.
func TestNestedEscapesOfValueAreMasked(t *testing.T) {
	trace := func(script string) func(string) string {
		return func(v string) string { return bash(t, "C.UTF-8", "exec 2>&1; "+script, v) }
	}
	quote := func(v string) string { return "'" + strings.ReplaceAll(v, "'", `'\''`) + "'" }
	for name, form := range map[string]func(string) string{
		"trace of %q":        trace(`set -x; B=$(printf %q "$V")`),
		"trace of @Q":        trace(`set -x; echo "${V@Q}"`),
		"@Q of @Q":           trace(`C="${V@Q}"; echo "${C@Q}"`),
		"%q of %q":           trace(`printf '%q\n' "$(printf %q "$V")"`),
		"trace of a shell":   trace(`set -x; bash -c "true $(printf %q "$V")"`),
		"JSON three deep":    func(v string) string { return plainJSON(plainJSON(plainJSON(v))) },
		"ASCII three deep":   func(v string) string { return pythonJSON(pythonJSON(pythonJSON(v))) },
		"percent twice":      func(v string) string { return url.QueryEscape(url.QueryEscape(v)) },
		"percent in percent": func(v string) string { return url.PathEscape(lowerHex(url.PathEscape(url.PathEscape(v)))) },
		"percent in JSON":    func(v string) string { return plainJSON(plainJSON(url.PathEscape(v))) },
		"JSON in percent":    func(v string) string { return url.QueryEscape(plainJSON(v)) },
		"JSON in a shell":    func(v string) string { return quote(plainJSON(v)) },
		"shell in JSON":      func(v string) string { return plainJSON(quote(quote(v))) },
		"HTML in HTML":       func(v string) string { return html.EscapeString(html.EscapeString(v)) },
		"HTML in JSON":       func(v string) string { return plainJSON(html.EscapeString(v)) },
	} {
		for _, v := range append([]string{`kP9v"Wx3$L m'Q8sTz4RbN7/yHc2D+e`, "zY7gIvEn%vAlUe&42xX=Qr"}, hard...) {
			r := &Redactor{Values: []string{v}}
			text := "a " + form(v) + " b"
			got := r.Text(text)
			for n := range len(v) - 5 {
				if part := v[n : n+6]; strings.Contains(got, part) || !strings.Contains(got, "‹secret›") {
					t.Fatalf("%s of %q: %q shows as %q", name, v, text, got)
				}
			}
		}
	}
}

// Each kind of escape is decoded inside each other, up to four times, also if one text
// has lines of all kinds.
func TestEachNestingOfEscapesIsMaskedInOneText(t *testing.T) {
	kinds := []struct {
		name string
		form func(string) string
	}{
		{"JSON", plainJSON}, {"URL", url.QueryEscape}, {"HTML", html.EscapeString}, {"%q", backslashed},
		{"shlex", func(v string) string { return "'" + strings.ReplaceAll(v, "'", `'"'"'`) + "'" }},
		{"@Q", func(v string) string { return "'" + strings.ReplaceAll(v, "'", `'\''`) + "'" }},
	}
	const v = `kP9v"Wx3$L m'Q8sTz4RbN7/yHc2D+e`
	type form struct{ name, text string }
	forms := []form{{"", v}}
	r := &Redactor{Values: []string{v}}
	for depth := 1; depth <= maxLevels; depth++ {
		var outer []form
		var text strings.Builder
		for _, f := range forms {
			for _, k := range kinds {
				outer = append(outer, form{f.name + " " + k.name, k.form(f.text)})
				text.WriteString(outer[len(outer)-1].text + "\n")
			}
		}
		forms = outer
		got := strings.Split(r.Text(text.String()), "\n")
		for i, f := range forms {
			for n := range len(v) - 5 {
				if len(got) != len(forms)+1 || strings.Contains(got[i], v[n:n+6]) || !strings.Contains(got[i], "‹secret›") {
					t.Errorf("%d deep: %s of %q: %.300q shows as %.300q", depth, f.name, v, f.text, got[i])
					break
				}
			}
		}
	}
}

// backslashed escapes a text like %q of bash.
func backslashed(v string) string {
	var b strings.Builder
	for i := range len(v) {
		if charset[v[i]]&(1<<dotted) == 0 && v[i] != '/' && v[i] != '+' && v[i] != '%' {
			b.WriteByte('\\')
		}
		b.WriteByte(v[i])
	}
	return b.String()
}

// A text that ends within an escape or encoding of a value shows only its beginning.
func TestEscapedValueCutByEndOfTextIsMasked(t *testing.T) {
	for _, v := range hard {
		r := &Redactor{Values: []string{v}}
		for name, form := range map[string]string{
			"JSON": pythonJSON(v), "URL": lowerHex(url.QueryEscape(v)), "base64": base64.StdEncoding.EncodeToString([]byte(v)),
		} {
			form = strings.Trim(form, `"`)
			for n := len(form) / 2; n < len(form); n++ {
				if got := r.Text("x " + form[:n]); len(got) > len("x ‹secret›")+6 {
					t.Errorf("%s: %q shows as %q", name, form[:n], got)
				}
			}
		}
	}
}

// Invalid escapes, and escapes of other text, stay unchanged.
func TestOtherEscapesStayUnchanged(t *testing.T) {
	r := &Redactor{Values: hard}
	for _, s := range []string{`C:\Users\me\new\x`, "100% of 50%", `"\u00e4\ud83d" \U0010`, "%zz %2", `\`, `\u{110000000}`, "dGhpcyBpcyBubyBzZWNyZXQ="} {
		if got := r.Text(s); got != s {
			t.Errorf("%q shows as %q", s, got)
		}
	}
}

func FuzzEscapes(f *testing.F) {
	for _, v := range hard {
		f.Add("before", v, "behind")
	}
	f.Add(`\`, `\u00`, `\ud83d\u`)
	f.Fuzz(func(t *testing.T, before, v, behind string) {
		v = strings.TrimSpace(v)
		if len(v) < MinValue || strings.Contains(maskStart+"secret›", v) {
			return
		}
		r := &Redactor{Values: []string{v}}
		for _, form := range []string{plainJSON(v), htmlJSON(v), pythonJSON(v), url.QueryEscape(v), lowerHex(url.PathEscape(v))} {
			if !json.Valid([]byte(plainJSON(v))) || strings.Contains(plainJSON(v), `\ufffd`) {
				return // no text
			}
			text := before + " " + form + " " + behind
			for _, x := range r.Find([]byte(text)) {
				if x.From < 0 || x.To > len(text) || x.From >= x.To {
					t.Fatalf("%q: %+v", text, x)
				}
			}
			if got := r.Text(" " + form + " "); !strings.Contains(got, "‹") {
				t.Errorf("%q shows as %q", form, got)
			}
		}
	})
}
