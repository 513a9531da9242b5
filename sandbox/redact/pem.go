package redact

import "strings"

const (
	dashes     = "-----"
	keyLabel   = "PRIVATE KEY"
	privateKey = "private key" // its kind

	// maxKey bounds the distance from its border lines in which a private key is searched.
	// The largest in use, RSA of 16,384 bits, has 12 kB.
	maxKey = 16 << 10
)

// pem finds the whole block of a private key from either of its border lines: the
// other one may be missing.
func (x *scanner) pem(i int) int {
	rest := x.s[i:]
	begins := strings.HasPrefix(rest, dashes+"BEGIN ")
	if !begins && !strings.HasPrefix(rest, dashes+"END ") {
		return 0
	}
	label, _, closed := strings.Cut(rest[len(dashes):min(len(rest), 80)], dashes)
	if !closed || !strings.Contains(label, keyLabel) {
		return 0
	}
	head := i + len(dashes) + len(label) + len(dashes)
	if begins {
		return x.found(i, x.pemEnd(head), privateKey)
	}
	return x.found(x.pemStart(i), head, privateKey)
}

// pemEnd returns the end of the block whose first line ends at i.
func (x *scanner) pemEnd(i int) int {
	body := x.s[i:min(len(x.s), i+maxKey)]
	if border := strings.Index(body, dashes); border >= 0 && strings.HasPrefix(body[border:], dashes+"END ") {
		end := border + len(dashes)
		if n := strings.Index(body[end:min(len(body), end+80)], dashes); n >= 0 {
			return i + end + n + len(dashes)
		}
		return i + end
	}
	n := 0
	for line := range strings.Lines(body) {
		if n > 0 && !isKeyLine(line) && !strings.Contains(line[:min(len(line), 16)], ": ") {
			break
		}
		n += len(line)
	}
	return i + n
}

// pemStart returns the start of the block whose last line begins at i.
func (x *scanner) pemStart(i int) int {
	least := max(0, i-maxKey)
	if n := len(x.spans); n > 0 && x.spans[n-1].To <= i {
		least = max(least, x.spans[n-1].To)
	}
	for i > least {
		line := x.s[least : i-1]
		line = line[strings.LastIndexByte(line, '\n')+1:]
		if x.s[i-1] != '\n' || !isKeyLine(line) {
			break
		}
		i -= len(line) + 1
	}
	return i
}

// isKeyLine reports whether a line can be part of a key in base64.
func isKeyLine(line string) bool {
	line = strings.TrimSpace(line)
	for i := range len(line) {
		if c := line[i]; charset[c]&(1<<base62) == 0 && c != '+' && c != '/' && c != '=' {
			return false
		}
	}
	return true
}
