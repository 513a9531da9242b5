package model

import (
	"errors"
	"fmt"
	"strings"
)

// A Key is the key of an API. The zero Key is none.
//
// Its text is in a function, so that printing, logging or encoding a value that contains
// a Key does not show it.
type Key struct{ reveal func() string }

// IsSet reports whether there is a key.
func (k Key) IsSet() bool { return k.reveal != nil }

func (k Key) text() string {
	if k.reveal == nil {
		return ""
	}
	return k.reveal()
}

// maxKey is longer than any key; a longer text is not a key.
const maxKey = 4 << 10

// NewKey returns a key. Its errors do not contain the text.
func NewKey(text string) (Key, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return Key{}, errors.New("the key is empty")
	case len(text) > maxKey:
		return Key{}, fmt.Errorf("a key must have at most %d bytes", maxKey)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return Key{}, errors.New("a key must be one word of ASCII characters")
	}
	return Key{func() string { return text }}, nil
}

// maskedRun is the length from which on a piece of the key is masked. Some APIs repeat
// the ends of a wrong key so that its owner recognizes it.
const maskedRun = 8

// mask masks the key, and longer pieces of it, in a text.
func (k Key) mask(text string) string {
	key := k.text()
	if key == "" {
		return text
	}
	const masked = "***"
	text = strings.ReplaceAll(text, key, masked)
	for i := 0; i+maskedRun <= len(key); i++ {
		text = strings.ReplaceAll(text, key[i:i+maskedRun], masked)
	}
	return text
}
