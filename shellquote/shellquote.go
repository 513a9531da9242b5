// Package shellquote writes words so that a POSIX shell reads each of them as one
// word again.
package shellquote

import "strings"

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
