package redact

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// The secrets are concatenated here, so that repository scanners do not report them.
const (
	body36 = "0123456789abcdefghijABCDEFGHIJ012345"
	github = "ghp" + "_" + body36
	aws    = "AKIA" + "IOSFODNN7EXAMPLE"
	jwt    = "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0." + "c2lnbmF0dXJlc2lnbmF0dXJl"
	stripe = "sk" + "_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
	slack  = "xoxb" + "-123456789012-abcdefGHIJKL"
	claude = "sk-" + "ant-api03-Zx9Qw8Er7Ty6Ui5Op4As3Df2"
	openai = "sk-" + "proj-Zx9Qw8Er7Ty6Ui5Op4As3Df2"
	google = "AI" + "zaSyA1234567890abcdefghijklmnopqrstuv"
	pem    = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq\nq83vEjRWeJq8N\n-----END RSA " + "PRIVATE KEY-----"
)

func TestTextMasksKnownForms(t *testing.T) {
	for in, want := range map[string]string{
		"token " + github + "\n":                                         "token ‹github token›\n",
		"aws_access_key_id=" + aws + "\nnext":                            "aws_access_key_id=‹aws key›\nnext",
		"aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE1": "aws_secret_access_key = ‹secret›",
		"Authorization: Bearer " + jwt + "\nHost: x":                     "Authorization: Bearer ‹authorization›\nHost: x",
		"authorization: Basic dXNlcjpwYXNzd29yZA== x":                    "authorization: Basic ‹authorization› x",
		"sent bearer 0a1b2c3d4e5f60718293 to it":                         "sent bearer ‹bearer token› to it",
		"got " + jwt + ", fine":                                          "got ‹jwt›, fine",
		"key " + stripe + ".":                                            "key ‹stripe key›.",
		"bot " + slack + " up":                                           "bot ‹slack token› up",
		"(" + claude + ")":                                               "(‹anthropic key›)",
		"(" + openai + ")":                                               "(‹openai key›)",
		"maps?key=" + google + "&x=1":                                    "maps?key=‹google key›&x=1",
		"glpat" + "-abcdefghij0123456789 ":                               "‹gitlab token› ",
		"npm" + "_" + body36 + " ":                                       "‹npm token› ",
		"pypi" + "-AgEIcHlwaS5vcmcCJDU5N2Y3 ":                            "‹pypi token› ",
		"before\n" + pem + "\nafter":                                     "before\n‹private key›\nafter",
		"postgres://app:hunter2@db:5432/x":                               "postgres://app:‹password›@db:5432/x",
		"amqp://app:p@ss:w0rd@mq/":                                       "amqp://app:‹password›@mq/",
		"redis://:hunter22@cache":                                        "redis://:‹password›@cache",
		"export DB_PASSWORD=hunter2 X=1":                                 "export DB_PASSWORD=‹password› X=1",
		`{"api_key": "letters", "id": 7}`:                                `{"api_key": "‹secret›", "id": 7}`,
		`{\"clientSecret\":\"letters\"}`:                                 `{\"clientSecret\":\"‹secret›\"}`,
		"password: correct7horse\n":                                      "password: ‹password›\n",
		"PASSPHRASE='correct horse battery'\n":                           "PASSPHRASE='‹password›'\n",
		"AccountKey=abcdefgh1234==;EndpointSuffix=x":                     "AccountKey=‹secret›;EndpointSuffix=x",
		"x-api-key: 0123abcdef\r\n":                                      "x-api-key: ‹secret›\r\n",
	} {
		if got := new(Redactor).Text(in); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
}

func TestTextLeavesOrdinaryTextUnchanged(t *testing.T) {
	for _, s := range []string{
		"commit 0bee89b07a248e27c83fc3d5951213c16a3b7d2f (HEAD -> main)",
		"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"request-id: 123e4567-e89b-12d3-a456-426614174000",
		"integrity sha512-oX0pGsqjqxN3vT1yqZ7lXw8m2YkYV6KqgV4H0m0yqQ1o8w==",
		"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
		"blob eyJuYW1lIjoid2FybWJveCIsInZlcnNpb24iOjF9 and so on",
		"--- FAIL: TestTokenRefresh (0.00s)",
		"    auth_test.go:31: TestPassword1: got 200, want 401",
		"test_api_key_is_refused PASSED",
		"max_tokens=4096 token_count: 12345678 tokenizer=bert-base-uncased",
		"SyntaxError: Unexpected token: punc (})",
		"error: expected one of `,`, unexpected token: identifier",
		"PASSWORD_FILE=/run/secrets/db PWD=/root/work1",
		`password := os.Getenv("DB_PASSWORD")`,
		"connect(user=user, password=password, token=self.token)",
		"TOKEN=$GITHUB_TOKEN curl -H \"Authorization: Bearer $TOKEN\"",
		`"password": "string", "token": null`,
		"password: ********",
		"git@github.com:acme/app.git https://example.com:8443/a@b http://[::1]:80/",
		"http://localhost:8080",
		"task-proj-some-long-kebab-case-name-here disk-by-id-0123456789",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ1c3Rlci5rZXk me@host",
		"the bearer of this letter, bearer token authentication failed",
		"src/token.go:12:5: undefined: secret",
		"a := b == c; key=value; x: y",
	} {
		if got := new(Redactor).Text(s); got != s {
			t.Errorf("%q\n got %q", s, got)
		}
	}
}

func TestTextMasksGivenValues(t *testing.T) {
	key := "line one of a key file\nline two of a key file"
	r := &Redactor{Values: []string{"s3cr&t/9", "short", " padded-value\n", key}}
	for in, want := range map[string]string{
		"a s3cr&t/9 b s3cr&t/9":               "a ‹secret› b ‹secret›",
		"?q=s3cr%26t%2F9&r":                   "?q=‹secret›&r",
		`{"v":"s3cr\u0026t/9"}`:               `{"v":"‹secret›"}`,
		"short is not taken":                  "short is not taken",
		"xpadded-valuex":                      "x‹secret›x",
		"1: line two of a key file\n2: other": "1: ‹secret›\n2: other",
		"not all of it yet: s3cr&t":           "not all of it yet: ‹secret›",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
}

func TestSecretWithControlCharactersIsMasked(t *testing.T) {
	for in, want := range map[string]string{
		"token \x1b[31m" + github[:10] + "\x1b[1m" + github[10:] + "\x1b[0m\n": "token \x1b[31m‹github token›\x1b[0m\n",
		github[:20] + "\x00\b" + github[20:]:                                   "‹github token›",
		"\x1b[" + github + "\x1b[m":                                            "\x1b[‹github token›\x1b[m",
		github[:9] + "\u009b" + github[9:]:                                     "‹github token›",
		"\x1b[33mtoken\x1b[0m=\x1b[32mhunter22\x1b[0m ok":                      "\x1b[33mtoken\x1b[0m=\x1b[32m‹secret›\x1b[0m ok",
		strings.ReplaceAll(pem, "\n", "\r\n") + "\r\nx":                        "‹private key›\r\nx",
	} {
		if got := new(Redactor).Text(in); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
}

// A text that ends within a secret, such as the output of a running command, shows
// less than half of it.
func TestSecretCutByEndOfTextIsMasked(t *testing.T) {
	for _, secret := range []string{github, aws, jwt, stripe, slack, claude, openai, google, pem} {
		for n := len(secret) / 2; n < len(secret); n++ {
			if got := new(Redactor).Text("x " + secret[:n]); strings.Contains(got, secret[:len(secret)/2]) {
				t.Errorf("%q shows as %q", secret[:n], got)
			}
		}
	}
	if got := new(Redactor).Text(pem[32:] + "\nx"); got != "‹private key›\nx" {
		t.Errorf("the end of a key shows as %q", got)
	}
}

// For any cut of a text, neither part shows a part of a secret.
func TestWithinMasksSecretsAcrossBorders(t *testing.T) {
	for _, secret := range []string{github, pem, github[:9] + "\x1b[1m" + github[9:]} {
		p := []byte("head " + secret + " tail")
		for cut := range len(p) + 1 {
			first := string(new(Redactor).Within(p, 0, cut))
			last := string(new(Redactor).Within(p, cut, len(p)))
			for _, part := range []string{first, last} {
				part = strings.NewReplacer("‹github token›", "", "‹private key›", "").Replace(part)
				if strings.Trim(part, "head til") != "" {
					t.Fatalf("cut at %d: %q and %q", cut, first, last)
				}
			}
		}
	}
}

func TestRangesMatchesWithin(t *testing.T) {
	p := []byte("one " + github + " two " + pem + "\nthree " + stripe)
	for n := 1; n < len(p); n += 3 {
		var ranges [][2]int
		for from := 0; from < len(p); from += 2 * n {
			ranges = append(ranges, [2]int{from, min(from+n, len(p))})
		}
		for i, part := range new(Redactor).Ranges(p, ranges) {
			if want := new(Redactor).Within(p, ranges[i][0], ranges[i][1]); string(part) != string(want) {
				t.Fatalf("%v of %v: %q, alone %q", ranges[i], ranges, part, want)
			}
		}
	}
}

// planted are secrets that must be masked in any surrounding text.
var planted = []string{github, stripe, claude, pem, "exact-value-of-a-variable"}

func FuzzText(f *testing.F) {
	for _, s := range planted {
		f.Add("token=", s, byte(1))
	}
	f.Add("http://a:b", "@c password: \"x", byte(0))
	f.Add("\x1b[31", "m\xc2\x9b-----BEGIN PRIVATE KEY", byte(3))
	f.Add("‹secret›=‹", "eyJ.eyJ.=\\\"", byte(2))
	f.Fuzz(func(t *testing.T, before, after string, which byte) {
		r := &Redactor{Values: planted[4:]}
		secret := planted[int(which)%len(planted)]
		text := before + " " + secret + " " + after
		got := r.Text(text)
		if strings.Contains(got, secret[:len(secret)/2+1]) && !strings.Contains(before+after, secret[:len(secret)/2+1]) ||
			strings.Contains(got, secret[len(secret)/2:]) && !strings.Contains(before+after, secret[len(secret)/2:]) {
			t.Errorf("%q shows as %q", text, got)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q became invalid: %q", text, got)
		}
		if again := r.Text(got); again != got {
			t.Errorf("%q\nmasked %q\nagain  %q", text, got, again)
		}
		for _, cut := range []int{0, len(text) / 3, len(text)} {
			if whole := r.Within([]byte(text), 0, len(text)); cut == 0 && string(whole) != got {
				t.Errorf("Within %q, Text %q", whole, got)
			}
			r.Within([]byte(text), cut, len(text))
		}
	})
}

func TestTextWithoutSecretsDoesNotAllocate(t *testing.T) {
	r := &Redactor{Values: []string{"exact-value-of-a-variable"}}
	text := strings.Repeat(ordinary, 100)
	if n := testing.AllocsPerRun(10, func() { r.Text(text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

const ordinary = "ok  \tgithub.com/acme/app/internal/store\t0.412s\n" +
	"2026-03-04T10:11:12Z INFO request done method=GET path=/v1/items status=200 took=1.2ms\n" +
	"src/app/main_test.go:214: want: [1 2 3], got: [1 2 4]\n"

func BenchmarkText(b *testing.B) {
	for name, text := range map[string]string{
		"ordinary": ordinary,
		"coloured": "\x1b[32m✓\x1b[0m renders the list \x1b[90m(12 ms)\x1b[0m\n",
		"secrets":  ordinary + "token " + github + "\n" + pem + "\n",
		"a":        "a",
		"=":        "=",
		"://":      "://",
		"token=":   "token=",
		"token: '": "token: '\"`",
		"eyJ":      "eyJ",
		"begin":    "-----BEGIN ",
		"key":      "-----BEGIN PRIVATE KEY-----\n",
		"end":      "AAAA\n-----END PRIVATE KEY-----\n",
		"nested":   "password: $x password=(",
	} {
		text = strings.Repeat(text, 1<<20/len(text))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			r := &Redactor{Values: []string{"exact-value-of-a-variable"}}
			for b.Loop() {
				r.Text(text)
			}
		})
	}
}

func BenchmarkEscapes(b *testing.B) {
	for name, text := range map[string]string{
		"ordinary": ordinary,
		"JSON":     `{"level":"info","msg":"don't \"panic\"\n","path":"C:\\dir","url":"http:\/\/h\/?q=a%20b&r=1"}` + "\n",
		"mixed":    `{"q":"it'"'"'s a%2520b &amp;amp; \\\"c\\\" '\'' &#10;"}` + "\n",
	} {
		text = strings.Repeat(text, 1<<20/len(text))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			r := &Redactor{Values: []string{`kP9v"Wx3$L m'Q8sTz4RbN7/yHc2D+e`}}
			for b.Loop() {
				r.Text(text)
			}
		})
	}
}
