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

// The tokens of `warmbox http` and their names.

// minToken is the minimum length of a token: an attacker who reaches the server can
// try any number of them.
const minToken = 16

// tokenLine matches a token, or a name and a token. The characters are those of a
// bearer token, which has "=" only at its end.
var tokenLine = regexp.MustCompile(`^(?:([A-Za-z0-9][A-Za-z0-9._-]*)\s*=\s*)?([A-Za-z0-9._~+/-]+=*)$`)

// A keyring is the tokens that the server accepts, and their file.
type keyring struct {
	file   string
	tokens map[string]string // by name
	bare   bool              // the file contains only one token and nothing else
}

// keyring reads the configured file. Without one it generates a token: other users and
// web pages can reach a server on loopback too.
func (c *Config) keyring() (keyring, error) {
	if c.HTTP.TokenFile != "" {
		file, err := filepath.Abs(c.HTTP.TokenFile) // its name is printed for use in other directories
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
		return keyring{}, fmt.Errorf("cannot generate a token: %w", err)
	}
	return c.readKeyring(file)
}

// line returns the shell command that adds the server to a client. If there are
// several tokens, they belong to different users and none is shown.
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

// makeToken writes a random token, unless the file exists. The file appears complete or
// not at all: another server may start at the same time.
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

// readKeyring reads a file with one token, or with a line "name = token" for each of
// several. Its errors contain no part of a token.
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
		return keyring{}, fmt.Errorf("%s contains no token", file)
	case nameless && len(k.tokens) > 1:
		return keyring{}, fmt.Errorf("%s contains more than one token; give each its own name, as in: name = token", file)
	case nameless:
		k.tokens = map[string]string{"default": token}
		k.bare = token == strings.TrimSpace(text)
	}
	return k, nil
}

func (k keyring) add(line string) error {
	match := tokenLine.FindStringSubmatch(line)
	if match == nil {
		return errors.New("neither a token (one word of letters, digits and -._~+/) nor: name = token")
	}
	name, token := match[1], match[2]
	if _, twice := k.tokens[name]; twice {
		return errors.New("a second token with the same name, or without a name; give each its own, as in: name = token")
	}
	if strings.EqualFold(name, "local") {
		return fmt.Errorf("a token must not have the name %q, which is reserved for stdio; choose another", name)
	}
	if len(token) < minToken {
		return fmt.Errorf("a token must have at least %d characters, so that it cannot be guessed; to generate one: openssl rand -hex 16", minToken)
	}
	k.tokens[name] = token
	return nil
}
