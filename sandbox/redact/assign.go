package redact

import (
	"slices"
	"strings"
)

// assignment finds the value of NAME=…, NAME: … or "NAME": "…" if the name is that of
// a secret. The = or : is at i.
func (x *scanner) assignment(i int) int {
	end := strings.TrimRight(x.s[max(0, i-4):i], " \"'\\:")
	name := x.s[max(0, i-4-maxName) : max(0, i-4)+len(end)]
	if hasSuffixFold(name, "authorization") {
		return x.authorization(i + 1)
	}
	kind := secretName(name)
	if kind == "" {
		return 0
	}
	from := i + 1
	for from < min(len(x.s), i+8) && strings.IndexByte("=> \t\\", x.s[from]) >= 0 {
		from++
	}
	if from == len(x.s) || strings.IndexByte("\"'`", x.s[from]) < 0 {
		to := x.run(from, value)
		tight := x.s[i] == '=' && from == i+1
		return x.assigned(from, to, kind, tight && plausible(name, x.s[from:to]) || !tight && random(kind, x.s[from:to]))
	}
	from++
	to := x.quoted(from)
	return x.assigned(from, to, kind, kind == "password" || strings.IndexByte(x.s[from:to], ' ') < 0)
}

// maxName bounds how much of a name is read.
const maxName = 64

func (x *scanner) assigned(from, to int, kind string, ok bool) int {
	if !ok || !x.long(from, to, MinValue) || placeholder(x.s[from:to]) {
		return 0
	}
	return x.found(from, to, kind)
}

// quoted returns the end of the quoted text that begins at i: at its quote, or at the
// end of the line.
func (x *scanner) quoted(i int) int {
	const most = 4096
	text := x.s[i:min(len(x.s), i+most)]
	quote := x.s[i-1]
	for n := range len(text) {
		if c := text[n]; c == quote || c == '\n' || c == '\\' && n+1 < len(text) && text[n+1] == quote {
			return i + n
		}
	}
	return i + len(text)
}

// authorization finds the credentials of a header, "Basic dXNlcjpwYXNz".
func (x *scanner) authorization(i int) int {
	for i < len(x.s) && strings.IndexByte(" \"'", x.s[i]) >= 0 {
		i++
	}
	scheme, _, ok := strings.Cut(x.s[i:min(len(x.s), i+16)], " ")
	if !ok || !slices.Contains([]string{"basic", "bearer", "token", "apikey", "bot"}, strings.ToLower(scheme)) {
		return 0
	}
	from := i + len(scheme) + 1
	return x.assigned(from, x.run(from, value), "authorization", true)
}

// secretNames are the suffixes of names of secrets, without separators between
// words, by their last letter.
var secretNames = ['z' + 1][]string{
	'd': {"password", "passwd", "mysqlpwd", "userpwd"},
	'e': {"passphrase", "secretkeybase"},
	'n': {"token"},
	's': {"sshpass", "dbpass", "credentials"},
	't': {"secret"},
	'y': {"apikey", "accesskey", "secretkey", "privatekey", "accountkey", "authkey", "signingkey", "encryptionkey", "masterkey"},
}

// secretName returns the kind of secret that a name denotes, or "". The suffix
// decides: max_tokens, PASSWORD_FILE and TestToken1 denote none.
func secretName(name string) string {
	if name == "" || name[len(name)-1]|0x20 > 'z' {
		return ""
	}
	for _, s := range secretNames[name[len(name)-1]|0x20] {
		if hasSuffixFold(name, s) {
			if strings.Contains(s, "pass") || strings.HasSuffix(s, "pwd") {
				return "password"
			}
			return "secret"
		}
	}
	return ""
}

// hasSuffixFold ignores case, and separators between words.
func hasSuffixFold(name, suffix string) bool {
	n := len(name)
	for i := len(suffix) - 1; i >= 0; i-- {
		for n > 0 && i < len(suffix)-1 && strings.IndexByte("_-. ", name[n-1]) >= 0 {
			n--
		}
		if n == 0 || name[n-1]|0x20 != suffix[i] {
			return false
		}
		n--
	}
	return true
}

// placeholder reports whether a value only stands for a secret: a variable, a format,
// stars, a mask, a word of a schema.
func placeholder(v string) bool {
	if v == "" || strings.IndexByte("$%*{[(<", v[0]) >= 0 || strings.Contains(v, maskStart) {
		return true
	}
	words := []string{"string", "secret", "password", "required", "optional", "missing", "invalid", "expired", "undefined", "redacted"}
	return slices.Contains(words, strings.ToLower(strings.TrimRight(v[:min(len(v), 16)], ".:!")))
}

// plausible reports whether the text directly after "=" can be a secret. In source
// code it is often a call, or a variable of the same name.
func plausible(name, v string) bool {
	return strings.IndexByte(v, '(') < 0 && (secretName(v) == "" || hasDigit(v)) && !strings.EqualFold(name, v)
}

// random reports whether the text after a = or : and a space can be a secret. Mostly
// it is prose, a type or source code: "unexpected token: identifier".
func random(kind, v string) bool {
	if len(v) < 8 || !hasDigit(v) || strings.IndexByte(v, '(') >= 0 || strings.Trim(v, "0123456789.:") == "" {
		return false
	}
	if kind == "password" || !strings.ContainsAny(v, ":./") {
		return true
	}
	return len(v) >= 20 && mixed(v) && !strings.ContainsAny(v, ":.")
}
