package summary

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox/redact"
)

// secrets are of the kinds that a redactor finds: by value, by form, by the name
// before it, short and long.
var secrets = map[string]string{
	"value":    "correct-horse/battery staple:90/long",
	"github":   "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6",
	"jwt":      "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi" + strings.Repeat("OiIxMjM0NTY3ODkw", 50) + ".c2lnbmF0dXJlLW9mLXRoZS10b2tlbg",
	"password": "https://deploy:Tr0ub4dor-and-3-more@db.example.com/x",
}

// leaks returns a piece of a secret that a text shows. Public pieces, such as a host
// name, do not count.
func leaks(text, secret string) string {
	const piece = 9
	for i := 0; i+piece <= len(secret); i++ {
		p := secret[i : i+piece]
		if strings.Contains(text, p) && !strings.Contains("https://deploy:@db.example.com/x", p) && !strings.Contains("eyJhbGciOiJIUzI1NiJ9.", p) {
			return p
		}
	}
	return ""
}

func maskedSummarizer(o Options) *Summarizer {
	r := &redact.Redactor{Values: []string{secrets["value"]}}
	o.Mask = r.Text
	return New(o)
}

// shownText returns all text of an output that leaves the package.
func shownText(output, cmd string, exit int) string {
	s := maskedSummarizer(Options{Cmd: cmd, Budget: 3000})
	for i := 0; i < len(output); i += 1000 {
		s.Write([]byte(output[i:min(len(output), i+1000)]))
	}
	d := s.Digest(Exit{Code: exit})
	return d.Cmd + "\n" + d.Summary + "\n" + d.Kept
}

// Secrets are masked in every part of an output from which text is taken.
func TestSecretsAreMaskedEverywhere(t *testing.T) {
	noise := func(lines int) string {
		var b strings.Builder
		for i := range lines {
			fmt.Fprintf(&b, "line %d of the log\n", i)
		}
		return b.String()
	}
	for name, secret := range secrets {
		t.Run(name, func(t *testing.T) {
			for place, output := range map[string]string{
				"small":    "token is " + secret + "\n",
				"head":     "using " + secret + "\n" + noise(500),
				"tail":     noise(500) + "used " + secret + "\n",
				"failure":  noise(200) + "main.go:3:4: error: cannot log in with " + secret + " here\n" + noise(200),
				"logged":   noise(200) + "2026-01-01 ERROR refused with " + secret + "\n" + noise(200),
				"json":     `{"status": "` + strings.Repeat("so ", 40) + secret + `", "message": "` + secret + `", "items": [1, 2]` + strings.Repeat(" ", 3000) + "}",
				"json key": `{"` + secret + `": [1, 2, 3], "total": 1` + strings.Repeat(" ", 3000) + "}",
				"listing":  strings.Repeat("src/"+secret+"/file.go\n/lib/x/"+secret+"\n", 100),
			} {
				for _, exit := range []int{0, 1} {
					if leak := leaks(shownText(output, "find", exit), secret); leak != "" {
						t.Errorf("%s, %s, exit %d: %q is shown", name, place, exit, leak)
					}
				}
			}
		})
	}
}

// The test moves secrets over every position where a long line is cut.
func TestSecretsAreMaskedAtSeams(t *testing.T) {
	const trigger, size, margin = 5000, 9000, leastMargin
	for name, secret := range secrets {
		t.Run(name, func(t *testing.T) {
			for _, seam := range []int{
				headPart, headPart + margin, trigger - windowPart - margin, trigger - windowPart,
				trigger + windowPart, trigger + windowPart + margin, size - tailPart - margin, size - tailPart,
			} {
				for at := seam - len(secret) - 3; at < seam; at += max(9, len(secret)/7) {
					if at < trigger+20 && at+len(secret) > trigger {
						continue // the trigger would overwrite a part of it
					}
					line := filler[:at] + secret + filler[at+len(secret):]
					line = line[:trigger] + "fatal error:" + line[trigger+12:]
					if leak := leaks(shownText(line+"\nnext\n", "", 1), secret); leak != "" {
						t.Fatalf("%s at %d: %q is shown", name, at, leak)
					}
				}
			}
		})
	}
}

var filler = strings.Repeat("words, words; ", 9000/14+1)[:9000]

// The test moves secrets over the end of the sample of a line in the middle of the
// log, of which only the template is stored.
func TestSecretsAreMaskedInSamples(t *testing.T) {
	for name, secret := range secrets {
		t.Run(name, func(t *testing.T) {
			for at := 0; at < loudSample+20; at += 19 {
				for _, word := range []string{"warning:", "version"} {
					line := word + strings.Repeat(" x", at/2) + " " + secret + strings.Repeat(" y", 300) + "\n"
					output := strings.Repeat("same\n", 50) + line + strings.Repeat("same\n", 100)
					if leak := leaks(shownText(output, "", 1), secret); leak != "" {
						t.Fatalf("%s at %d: %q is shown", name, at, leak)
					}
				}
			}
		})
	}
}

// With a mask, summaries still contain text that is not secret.
func TestMaskLeavesOtherTextUnchanged(t *testing.T) {
	for _, c := range loadCases(t, "dev") {
		if got, all := c.score(t, c.masked()); got < all*0.8 {
			t.Errorf("%s: %v of %v with a mask", c.name, got, all)
		}
	}
}

func (c logCase) masked() string {
	s := maskedSummarizer(Options{Cmd: c.cmd})
	s.Write(c.output)
	return s.Summary(Exit{Code: c.exit})
}

// No line of a private key is shown, the text around it is, and a key without an end
// does not hide the rest of the log.
func TestPrivateKeyIsHidden(t *testing.T) {
	body := ""
	for i := range 40 {
		body += fmt.Sprintf("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAA%018d\n", i)
	}
	begin, end := "-----BEGIN RSA PRIVATE KEY-----\n", "-----END RSA PRIVATE KEY-----\n"
	for name, tt := range map[string]struct{ key, want string }{
		"whole":      {begin + body + "short\n" + end, "the log goes on"},
		"encrypted":  {begin + "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0123\n\n" + body + end, "the log goes on"},
		"prefixed":   {"app | " + strings.ReplaceAll(begin+body, "\n", "\napp | ") + end, "the log goes on"},
		"no end":     {begin + body, "error: something of weight"},
		"only named": {"expected " + begin, "error: something of weight"},
		"one line":   {strings.ReplaceAll(begin+body+end, "\n", `\n`) + "\n", "the log goes on"},
	} {
		t.Run(name, func(t *testing.T) {
			output := strings.Repeat("starting up\n", 30) + tt.key + "the log goes on\n" +
				strings.Repeat("working on\n", 300) + "error: something of weight\n" + strings.Repeat("working on\n", 100)
			shown := shownText(output, "", 1)
			for _, line := range []string{body[:45], "00000000000000", "short", "0123"} {
				if strings.Contains(shown, line) {
					t.Errorf("%q is shown", line)
				}
			}
			if !strings.Contains(shown, tt.want) {
				t.Errorf("%q is hidden in:\n%s", tt.want, shown)
			}
		})
	}
}

// The test puts a value, with characters that keys do not have, after a run of key
// characters, so that the run crosses a seam into the value.
func TestSecretsAreMaskedAfterRuns(t *testing.T) {
	const value = "zY7gIvEn%vAlUe&42xX=Qr"
	long := "zY7gIvEn" + strings.Repeat("%vAlUe&42xX= ", 300)
	for name, secret := range map[string]string{"short": value, "long": strings.TrimSpace(long)} {
		r := &redact.Redactor{Values: []string{secret}}
		for _, run := range []string{"A", "c9", "/", "x=", "ab cd ", secrets["github"] + " "} {
			for _, size := range []int{900, 2000, 2040, 2550, 3000, 4080, 4090, 4096, 4100, 5000, 9000, 30000} {
				for _, line := range []string{"error: GET https://h.example/cb?state=%s failed", "error: %s", "%s fatal error: %[1]s", "{\"error\": \"%s\"}"} {
					line = fmt.Sprintf(line, strings.Repeat(run, size/len(run))+secret+" "+strings.Repeat("d", 700))
					s := New(Options{Mask: r.Text, Longest: r.Longest(), Budget: 3000})
					fmt.Fprintf(s, "%s\n%s", line, strings.Repeat("ok\n", 300))
					if d := s.Digest(Exit{Code: 1}); strings.Contains(d.Summary+d.Kept, "vAlUe") || strings.Contains(d.Summary+d.Kept, "zY7gI") {
						t.Errorf("%s after %d of %q is shown: %.300q", name, size, run, d.Summary)
					}
				}
			}
		}
	}
}

// A mask that a seam would cut is omitted as a whole.
func TestMasksAreNotCut(t *testing.T) {
	m := masker{func(s string) string { return s }, leastMargin}
	for n := 480; n < 530; n++ {
		text := strings.Repeat(" ", n) + "‹anthropic key›" + strings.Repeat(" ", 900)
		if got := strings.TrimSpace(m.part(text, true, false)); got != "" && got != "‹anthropic key›" {
			t.Errorf("at %d: %q", n, got)
		}
		text = strings.Repeat(" ", 900) + "‹anthropic key›" + strings.Repeat(" ", n)
		if got := strings.TrimSpace(m.part(text, false, true)); got != "" && got != "‹anthropic key›" {
			t.Errorf("%d before the end: %q", n, got)
		}
	}
}
