package model

import (
	"errors"
	"fmt"
	"strings"
)

// A Key is what an API wants to see before it answers. The zero Key is none.
//
// It is held by a function, so that no way of printing, logging or encoding a
// value that holds one shows it.
type Key struct{ reveal func() string }

// IsSet reports whether there is a key.
func (k Key) IsSet() bool { return k.reveal != nil }

func (k Key) text() string {
	if k.reveal == nil {
		return ""
	}
	return k.reveal()
}

// maxKey is more than any key has; a file that holds more is another file.
const maxKey = 4 << 10

// NewKey refuses what cannot be a key, without repeating it.
func NewKey(text string) (Key, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return Key{}, errors.New("there is no key in it")
	case len(text) > maxKey:
		return Key{}, fmt.Errorf("it has more than %d bytes, which no key has", maxKey)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return Key{}, errors.New("a key is one word of ASCII, and this is not")
	}
	return Key{func() string { return text }}, nil
}

// maskedRun is how much of a key may show. Some APIs repeat the ends of a wrong
// one for its owner to recognise.
const maskedRun = 8

// mask takes the key, and longer pieces of it, out of a text.
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
