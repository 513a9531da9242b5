package redact

// A form describes tokens with a fixed prefix.
type form struct {
	kind   string
	before string // the prefix up to the byte at which the scanner stops
	after  string // the prefix after that byte
	of     class  // the characters of the rest
	least  int    // the minimum length of the rest
	mixed  bool   // the rest must look random, since words can begin with the prefix
}

// forms lists the forms by the byte at which the scanner stops, which is rare in
// ordinary text.
var forms = [256][]form{
	'_': {
		{kind: "github token", before: "ghp_", of: base62, least: 36},
		{kind: "github token", before: "gho_", of: base62, least: 36},
		{kind: "github token", before: "ghu_", of: base62, least: 36},
		{kind: "github token", before: "ghs_", of: base62, least: 36},
		{kind: "github token", before: "ghr_", of: base62, least: 36},
		{kind: "github token", before: "github_pat_", of: base64url, least: 22},
		{kind: "npm token", before: "npm_", of: base62, least: 36},
		{kind: "stripe key", before: "sk_live_", of: base62, least: 16},
		{kind: "stripe key", before: "sk_test_", of: base62, least: 16},
		{kind: "stripe key", before: "rk_live_", of: base62, least: 16},
		{kind: "stripe key", before: "rk_test_", of: base62, least: 16},
		{kind: "stripe key", before: "whsec_", of: base64url, least: 24, mixed: true},
		{kind: "hugging face token", before: "hf_", of: base62, least: 30, mixed: true},
	},
	'-': {
		{kind: "gitlab token", before: "glpat-", of: base64url, least: 20},
		{kind: "gitlab token", before: "gldt-", of: base64url, least: 20},
		{kind: "gitlab token", before: "glrt-", of: base64url, least: 20},
		{kind: "gitlab token", before: "glptt-", of: base64url, least: 20},
		{kind: "gitlab token", before: "glcbt-", of: base64url, least: 20},
		{kind: "slack token", before: "xoxb-", of: base64url, least: 10},
		{kind: "slack token", before: "xoxp-", of: base64url, least: 10},
		{kind: "slack token", before: "xoxa-", of: base64url, least: 10},
		{kind: "slack token", before: "xoxr-", of: base64url, least: 10},
		{kind: "slack token", before: "xoxs-", of: base64url, least: 10},
		{kind: "slack token", before: "xapp-", of: base64url, least: 10},
		{kind: "pypi token", before: "pypi-", after: "AgE", of: base64url, least: 16},
		{kind: "google key", before: "GOCSPX-", of: base64url, least: 20},
		{kind: "age key", before: "AGE-SECRET-KEY-", after: "1", of: base62, least: 50},
		{kind: "anthropic key", before: "sk-", after: "ant-", of: base64url, least: 20, mixed: true},
		{kind: "openai key", before: "sk-", after: "proj-", of: base64url, least: 20, mixed: true},
		{kind: "openai key", before: "sk-", after: "svcacct-", of: base64url, least: 20, mixed: true},
		{kind: "openai key", before: "sk-", after: "admin-", of: base64url, least: 20, mixed: true},
		{kind: "openai key", before: "sk-", of: base62, least: 32, mixed: true},
	},
	'I': {
		{kind: "aws key", before: "AKI", after: "A", of: base36, least: 16},
		{kind: "aws key", before: "ASI", after: "A", of: base36, least: 16},
		{kind: "google key", before: "AI", after: "za", of: base64url, least: 35},
	},
	'.': {
		{kind: "google token", before: "ya29.", of: base64url, least: 20},
	},
	'/': {
		{kind: "slack webhook", before: "hooks.slack.com/services/", of: token68, least: 20},
	},
}

// triggers are the bytes at which the scanner stops.
var triggers = func() (t [256]bool) {
	for c := range forms {
		t[c] = forms[c] != nil
	}
	for _, c := range []byte("=:bBJ-") {
		t[c] = true
	}
	return t
}()

// A class is a set of characters.
type class int

const (
	digit     class = iota
	upper           // A-Z
	lower           // a-z
	base36          // A-Z 0-9
	base62          // letters and digits
	base64url       // letters, digits and "-_"
	dotted          // base64url and "."
	token68         // the credentials of RFC 7235
	value           // an unquoted value after a name
	authority       // the authority of a URL: user, password, host, port

	classes
)

var charset = func() (t [256]uint16) {
	add := func(c class, chars string) {
		for i := range len(chars) {
			t[chars[i]] |= 1 << c
		}
	}
	const digits, capitals, smalls = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
	const letters = capitals + smalls
	add(digit, digits)
	add(upper, capitals)
	add(lower, smalls)
	add(base36, capitals+digits)
	add(base62, letters+digits)
	add(base64url, letters+digits+"-_")
	add(dotted, letters+digits+"-_.")
	add(token68, letters+digits+"-._~+/=")
	for c := '!'; c < 0x7f; c++ {
		add(value, string(c))
	}
	for c := 0x80; c < 0x100; c++ {
		t[c] = 1<<value | 1<<authority
	}
	add(authority, letters+digits+"-._~!$&()*+,;=:@%^[]{}|")
	for _, c := range []byte("\"'`,;&)<>|\\") {
		t[c] &^= 1 << value
	}
	return t
}()
