package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/warmbox/warmbox/shellquote"
	"github.com/warmbox/warmbox/userdir"
)

// The tokens of `warmbox http`: which there are, and who gave them a name.

// minToken is how long a token is at least. Whoever reaches the server can try
// out as many as they like.
const minToken = 16

// tokenLine is a token, or a name and one. The characters are those that a
// bearer token may have, so "=" elsewhere than at its end is none of them.
var tokenLine = regexp.MustCompile(`^(?:([A-Za-z0-9][A-Za-z0-9._-]*)\s*=\s*)?([A-Za-z0-9._~+/-]+=*)$`)

// A keyring is the tokens that clients may show, by name, and where they are.
type keyring struct {
	file   string
	tokens map[string]string
	bare   bool // there is nothing else in the file but the one token
}

// keyring reads the file that was named. Where none was, there is one of our
// own: even on the loopback others knock, other users and web pages.
func (c *Config) keyring() (keyring, error) {
	if c.HTTP.TokenFile != "" {
		file, err := filepath.Abs(c.HTTP.TokenFile) // others may read its name elsewhere
		if err != nil {
			return keyring{}, err
		}
		return c.readKeyring(file)
	}
	file, err := ownTokenFile()
	if err == nil {
		err = makeToken(file)
	}
	if err != nil {
		return keyring{}, fmt.Errorf("cannot make a token: %w", err)
	}
	return c.readKeyring(file)
}

// line is what adds the server to a client, to be pasted into a shell. Of
// several tokens each is somebody else's, and none is shown.
func (k keyring) line(url string, show bool) string {
	bearer := "TOKEN"
	switch {
	case len(k.tokens) > 1:
	case show:
		for _, token := range k.tokens {
			bearer = token
		}
	case k.bare:
		bearer = "$(cat " + shellquote.Word(k.file) + ")"
	}
	return fmt.Sprintf(`claude mcp add --transport http warmbox %s --header "Authorization: Bearer %s"`, shellquote.Word(url), bearer)
}

func ownTokenFile() (string, error) {
	dir, err := userdir.State()
	return filepath.Join(dir, "http-token"), err
}

// makeToken writes a token that nobody can guess, if the file is not there. It
// appears whole or not at all: another server may start at the same time.
func makeToken(file string) error {
	if _, err := os.Lstat(file); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), "http-token-*") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(rand.Text() + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), file); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// readKeyring reads a file with one token, or with a line "name = token" for
// each. What it says of a mistake repeats no part of a token.
func (c *Config) readKeyring(file string) (keyring, error) {
	text, err := c.private().Read(file)
	if err != nil {
		return keyring{}, fmt.Errorf("cannot read the token: %w", err)
	}
	k := keyring{file: file, tokens: map[string]string{}}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := k.add(line); err != nil {
			return keyring{}, fmt.Errorf("%s, line %d: %w", file, number, err)
		}
	}
	token, nameless := k.tokens[""]
	switch {
	case len(k.tokens) == 0:
		return keyring{}, fmt.Errorf("there is no token in %s", file)
	case nameless && len(k.tokens) > 1:
		return keyring{}, fmt.Errorf("%s has more than one token; give each a name of its own, as in: name = token", file)
	case nameless:
		k.tokens = map[string]string{"default": token}
		k.bare = token == strings.TrimSpace(text)
	}
	return k, nil
}

func (k keyring) add(line string) error {
	match := tokenLine.FindStringSubmatch(line)
	if match == nil {
		return errors.New("this is neither a token, which is one word of letters, digits and -._~+/, nor: name = token")
	}
	name, token := match[1], match[2]
	if _, twice := k.tokens[name]; twice {
		return errors.New("there is a token before this one; give each a name of its own, as in: name = token")
	}
	if strings.EqualFold(name, "local") {
		return fmt.Errorf("a token cannot have the name %q, which stands for who calls over stdio; choose another one", name)
	}
	if len(token) < minToken {
		return fmt.Errorf("a token has %d characters or more, so that nobody guesses it; to make one: openssl rand -hex 16", minToken)
	}
	k.tokens[name] = token
	return nil
}
