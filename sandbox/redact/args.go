package redact

import (
	"path"
	"slices"
	"strings"
)

// Args returns the arguments of a program, its name first, with secrets masked. Besides what
// Text finds it masks what only arguments tell: the value of an option whose name is that of a
// secret (--password X, --api-key=X), the argument after a bare name if it looks like a secret
// (AUTH_TOKEN X), USER:PASSWORD@HOST, and the short options of some programs that take a
// password (mysql -pX, curl -u user:X). An argument that is a command line is searched as one.
func (r *Redactor) Args(args []string) []string {
	var line strings.Builder
	list := make([]word, len(args))
	var spans []Span
	for i, arg := range args {
		from := line.Len()
		line.WriteString(arg)
		list[i] = word{text: arg, from: from, first: i == 0}
		line.WriteByte(' ')
		if strings.ContainsAny(arg, blanks) {
			spans = append(spans, commandSpans(arg, from)...)
		}
	}
	spans = merge(slices.Concat(r.find(line.String()), spans, argSpans(list)))
	var masked []string
	for _, w := range list {
		var b strings.Builder
		render(&b, line.String(), w.from, w.from+len(w.text), spans)
		masked = append(masked, b.String())
	}
	return masked
}

// Command does for a command line what Args does for arguments.
func (r *Redactor) Command(s string) string {
	var b strings.Builder
	render(&b, s, 0, len(s), merge(append(r.find(s), commandSpans(s, 0)...)))
	return b.String()
}

// A word is an argument, or a word of a command line without its quotes.
type word struct {
	text  string
	from  int  // where the text begins
	first bool // the name of a program
}

const blanks = " \t\n"

// commandSpans returns the secrets that the words of a command line tell. The line begins at
// offset. Quotes keep blanks together, as far as that needs no shell.
func commandSpans(s string, offset int) []Span {
	var list []word
	first := true
	for i := 0; i < len(s); {
		if strings.IndexByte(blanks+";|&()", s[i]) >= 0 {
			first = first || s[i] != ' ' && s[i] != '\t'
			i++
			continue
		}
		from := i
		for quote := byte(0); i < len(s) && (quote != 0 || strings.IndexByte(blanks+";|&()", s[i]) < 0); i++ {
			switch {
			case s[i] == '\\' && quote != '\'':
				i = min(i+1, len(s)-1)
			case quote == s[i]:
				quote = 0
			case quote == 0 && (s[i] == '"' || s[i] == '\''):
				quote = s[i]
			}
		}
		text := strings.TrimLeft(s[from:i], `"'`)
		from = i - len(text)
		list = append(list, word{strings.TrimRight(text, `"'`), offset + from, first})
		first = false
	}
	return argSpans(list)
}

// argSpans returns the secrets that words tell.
func argSpans(list []word) (spans []Span) {
	add := func(w word, from int, kind string) {
		if v := w.text[from:]; v != "" && !placeholder(v) {
			spans = append(spans, Span{w.from + from, w.from + len(w.text), kind})
		}
	}
	program, login := "", false
	for i, w := range list {
		if w.first {
			program, login = path.Base(w.text), false
			continue
		}
		login = login || w.text == "login"
		var next word
		if i+1 < len(list) && !list[i+1].first {
			next = list[i+1]
		}
		name, value, joined := strings.Cut(w.text, "=")
		if from, to := userInfo(w.text); to > 0 {
			spans = append(spans, Span{w.from + from, w.from + to, "password"})
		}
		known := false
		for _, o := range shortOptions[program] {
			known = o.find(w, next, login, add) || known
		}
		option, variable := optionName(name), ""
		if isName(name) && name[0] != '-' {
			variable = secretName(name)
		}
		switch {
		case known:
		case option != "" && joined:
			if value = strings.TrimLeft(value, `"'`); !file(name, value) {
				add(w, len(w.text)-len(value), option)
			}
		case option != "" && !isOption(next.text) && !file(name, next.text):
			add(next, 0, option)
		case variable != "" && !joined && random(variable, next.text):
			add(next, 0, variable)
		case variable != "" && joined && len(value) >= MinValue && plausible(name, value):
			add(w, len(name)+1, variable)
		}
	}
	return spans
}

// optionName returns the kind of secret that is the value of an option, or "".
func optionName(option string) string {
	name := strings.TrimLeft(option, "-")
	if len(name) == len(option) || len(name) < 3 || !isName(name) || strings.HasPrefix(name, "no-") {
		return ""
	}
	for _, pass := range []string{"pass", "pwd", "passcode"} {
		if rest, ok := strings.CutSuffix(strings.ToLower(name), pass); ok && (rest == "" || strings.HasSuffix(rest, "-") || strings.HasSuffix(rest, "_")) {
			return "password"
		}
	}
	return secretName(name)
}

// isName reports whether s can be the name of an option or a variable.
func isName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(c rune) bool {
		return (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("_-.", c)
	})
}

// isOption reports whether an argument is an option, and not the value of the one before it.
func isOption(s string) bool {
	return strings.HasPrefix(s, "--") || len(s) <= 2 && strings.HasPrefix(s, "-")
}

// file reports whether the value of an option is the path of a file that has the secret.
func file(option, value string) bool {
	if !hasSuffixFold(option, "privatekey") && !hasSuffixFold(option, "credentials") {
		return false
	}
	return strings.HasPrefix(value, "/") || strings.HasPrefix(value, ".") || strings.HasPrefix(value, "~")
}

// userInfo returns where the password of USER:PASSWORD@HOST is. An image with a digest and a
// package with a version look alike, and are none.
func userInfo(s string) (from, to int) {
	colon, at := strings.IndexByte(s, ':'), strings.LastIndexByte(s, '@')
	switch {
	case colon < 1 || at <= colon+1 || at+1 == len(s):
		return 0, 0
	case strings.ContainsAny(s[:colon], "/@=-"+blanks) || strings.ContainsAny(s[colon:at], "/"+blanks):
		return 0, 0
	case strings.HasPrefix(s[at:], "@sha") || slices.Contains([]string{"npm", "jsr", "workspace", "patch"}, s[:colon]):
		return 0, 0
	case placeholder(s[colon+1 : at]):
		return 0, 0
	}
	return colon + 1, at
}

// A shortOption takes a password, of a program that is known to have it.
type shortOption struct {
	option string
	joined bool // the value is in the same argument
	apart  bool // the value is the next argument
	user   bool // the value is USER:PASSWORD
	login  bool // only of the subcommand login
}

var (
	mysql    = []shortOption{{option: "-p", joined: true}}
	registry = []shortOption{{option: "-p", joined: true, apart: true, login: true}}
	zip      = []shortOption{{option: "-P", joined: true, apart: true}}
	ldap     = []shortOption{{option: "-w", joined: true, apart: true}}
	httpie   = []shortOption{{option: "-a", joined: true, apart: true, user: true}, {option: "--auth", apart: true, user: true}, {option: "--auth=", joined: true, user: true}}
)

var shortOptions = map[string][]shortOption{
	"sshpass": {{option: "-p", joined: true, apart: true}},
	"mysql":   mysql, "mysqldump": mysql, "mysqladmin": mysql, "mariadb": mysql, "mariadb-dump": mysql, "mariadb-admin": mysql,
	"redis-cli": {{option: "-a", apart: true}},
	"docker":    registry, "podman": registry, "nerdctl": registry, "buildah": registry, "skopeo": registry, "oras": registry,
	"zip": zip, "unzip": zip, "7z": {{option: "-p", joined: true}}, "7za": {{option: "-p", joined: true}},
	"ldapsearch": ldap, "ldapadd": ldap, "ldapmodify": ldap, "ldapwhoami": ldap,
	"http": httpie, "https": httpie,
	"curl": {
		{option: "-u", joined: true, apart: true, user: true}, {option: "-U", joined: true, apart: true, user: true},
		{option: "--user", apart: true, user: true}, {option: "--proxy-user", apart: true, user: true},
		{option: "--user=", joined: true, user: true}, {option: "--proxy-user=", joined: true, user: true},
	},
}

// find adds the password that a word gives to the option, in itself or in the next one. It
// reports whether the word is the option.
func (o shortOption) find(w, next word, login bool, add func(w word, from int, kind string)) bool {
	from := 0
	switch {
	case o.login && !login:
		return false
	case o.apart && w.text == o.option:
		w = next
	case o.joined && strings.HasPrefix(w.text, o.option) && len(w.text) > len(o.option):
		from = len(o.option)
	default:
		return false
	}
	if o.user {
		_, password, ok := strings.Cut(w.text[from:], ":")
		if !ok {
			return true
		}
		from = len(w.text) - len(password)
	}
	add(w, from, "password")
	return true
}
