package redact

import "strings"

// A scanner finds the well-known forms in one pass. It stops only at bytes that a
// form must contain, and searches around them. The time is linear in the length of
// any text: text that is read twice is bounded or cached.
type scanner struct {
	s     string
	spans []Span
	runs  [classes]struct{ from, to int } // cache of the last run of each class
}

func (x *scanner) scan() {
	for i := 0; i < len(x.s); i++ {
		if !triggers[x.s[i]] {
			continue
		}
		if end := x.match(i); end > i {
			i = end - 1
		}
	}
}

// match tries the forms whose distinctive byte is at i. It returns the end of the
// secret that it found, or 0.
func (x *scanner) match(i int) int {
	switch x.s[i] {
	case '=':
		return x.assignment(i)
	case ':':
		if strings.HasPrefix(x.s[i:], "://") {
			return x.url(i + len("://"))
		}
		return x.assignment(i)
	case 'b', 'B':
		return x.bearer(i)
	case 'J':
		return x.jwt(i)
	case '-':
		if i == 0 || charset[x.s[i-1]]&(1<<base62) == 0 { // a border line or an option, not a hyphen within a word
			return x.pem(i)
		}
	}
	return x.prefixed(i)
}

func (x *scanner) found(from, to int, kind string) int {
	x.spans = append(x.spans, Span{from, to, kind})
	return to
}

// prefixed finds tokens with a known prefix.
func (x *scanner) prefixed(i int) int {
	for _, f := range forms[x.s[i]] {
		if !strings.HasSuffix(x.s[:i+1], f.before) || !strings.HasPrefix(x.s[i+1:], f.after) {
			continue
		}
		body := i + 1 + len(f.after)
		end := x.run(body, f.of)
		if !x.long(body, end, f.least) || f.mixed && end < len(x.s) && !mixed(x.s[body:end]) {
			continue
		}
		return x.found(i+1-len(f.before), end, f.kind)
	}
	return 0
}

// long reports whether the body of a secret has its minimum length. At the end of the
// text a shorter part suffices: the rest may not have been printed yet.
func (x *scanner) long(from, to, least int) bool {
	if to == len(x.s) {
		least = min(least, 4)
	}
	return to-from >= least
}

// run returns the end of the run of characters of a class that begins at i.
func (x *scanner) run(i int, c class) int {
	r := &x.runs[c]
	if i < r.from || i >= r.to {
		r.from, r.to = i, i
		for r.to < len(x.s) && charset[x.s[r.to]]&(1<<c) != 0 {
			r.to++
		}
	}
	return r.to
}

// jwt finds eyJ….….…, three parts of base64 with dots between them, where eyJ encodes
// {". Without a dot it is any JSON in base64.
func (x *scanner) jwt(i int) int {
	if !strings.HasSuffix(x.s[:i+1], "eyJ") {
		return 0
	}
	const header = 4096 // longer than any header; a longer text is data
	end := x.run(i, dotted)
	dot := strings.IndexByte(x.s[i:min(end, i+header)], '.')
	if dot < 8 || end-(i+dot+1) < 4 {
		return 0
	}
	return x.found(i-len("ey"), end, "jwt")
}

// bearer finds "Bearer TOKEN" anywhere, in a header or in a sentence.
func (x *scanner) bearer(i int) int {
	const word = "bearer "
	if len(x.s)-i <= len(word) || !strings.EqualFold(x.s[i:i+len(word)], word) {
		return 0
	}
	from := i + len(word)
	end := x.run(from, token68)
	if !x.long(from, end, 16) || !hasDigit(x.s[from:end]) {
		return 0
	}
	return x.found(from, end, "bearer token")
}

// url finds the password of SCHEME://USER:PASSWORD@HOST, whose user begins at i, or a
// token instead of the user.
func (x *scanner) url(i int) int {
	const most = 1024 // of user and password; a host has 255
	colon, at, end := 0, 0, i
	for ; end < min(len(x.s), i+most) && charset[x.s[end]]&(1<<authority) != 0; end++ {
		switch {
		case x.s[end] == '@':
			at = end
		case x.s[end] == ':' && colon == 0:
			colon = end
		}
	}
	switch {
	case at == 0 && colon > 0 && end == len(x.s) && x.s[i] != '[' && !isPort(x.s[colon+1:]):
		at = end // "@host" may not have been printed yet
	case at > 0 && colon == 0 && at-i >= 20 && mixed(x.s[i:at]):
		return x.found(i, at, "token")
	}
	if colon == 0 || at <= colon+1 || strings.IndexByte("$*{[", x.s[colon+1]) >= 0 || strings.Contains(x.s[colon:at], maskStart) {
		return 0
	}
	return x.found(colon+1, at, "password")
}

func isPort(s string) bool { return strings.Trim(s, "0123456789") == "" }

// mixed reports whether the first characters of s include digits and letters of both
// cases, as in random text and unlike words of a language.
func mixed(s string) bool {
	var seen uint16
	for i := range min(len(s), 64) {
		seen |= charset[s[i]]
	}
	const all = 1<<digit | 1<<upper | 1<<lower
	return seen&all == all
}

func hasDigit(s string) bool { return strings.ContainsAny(s[:min(len(s), 64)], "0123456789") }
