package model

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
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

// EnvKey takes a key from an environment variable.
func EnvKey(name string) (Key, error) {
	k, err := newKey(os.Getenv(name))
	if err != nil {
		return Key{}, fmt.Errorf("the environment variable %s: %w", name, err)
	}
	return k, nil
}

// FileKey takes a key from a file that its owner alone can read.
func FileKey(name string) (Key, error) {
	text, err := readPrivate(name)
	if err != nil {
		return Key{}, err
	}
	k, err := newKey(text)
	if err != nil {
		return Key{}, fmt.Errorf("%s: %w", name, err)
	}
	return k, nil
}

func readPrivate(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", name)
	}
	// Windows has no such modes, and shows none that are of use.
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return "", fmt.Errorf("%s holds a key and is open to other users (mode %04o); try: chmod 600 %s", name, mode, name)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	return string(text), err
}

// newKey refuses what cannot be a key, without repeating it.
func newKey(text string) (Key, error) {
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
