// Package shellquote writes words so that a POSIX shell reads each of them as one
// word again.
package shellquote

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// plain has the bytes that a shell takes literally. A word that has only these bytes is
// not quoted, so that messages and logs stay readable.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,"

// Word quotes one word.
func Word(word string) string {
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Line quotes the words of a command.
func Line(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Word(word)
	}
	return strings.Join(quoted, " ")
}

// BashLine quotes the words of a program and its arguments for bash, in valid UTF-8 whatever
// bytes they have. The first word names a program: not a variable to set, nor a keyword.
func BashLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		switch {
		case !utf8.ValidString(word):
			quoted[i] = escaped(word)
		case i == 0 && (strings.Contains(word, "=") || slices.Contains(keywords, word)):
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		default:
			quoted[i] = Word(word)
		}
	}
	return strings.Join(quoted, " ")
}

// keywords are the plain words that a shell does not take for a program.
var keywords = strings.Fields("if then elif else fi for while until do done case esac in function select time coproc")

// escaped writes a word as $'…', each byte that is not a plain one as \xNN.
func escaped(word string) string {
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(word) {
		if c := word[i]; strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
