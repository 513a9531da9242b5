package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/warmbox/warmbox/sandbox/redact"
)

// maxEnvironment bounds what the configuration adds to the environment of
// commands. It comes to a box in one message, with what start adds.
const maxEnvironment = 12 << 10

// environment is what every command sees besides the few variables that are
// warmbox's own: [env], and the secrets that are given away. It goes to the agent
// with its first message, so that it is on no disk, in no command line and in
// nothing that the engine tells.
func (c *Config) environment() (map[string]string, error) {
	env := maps.Clone(c.Env)
	if env == nil {
		env = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets.Give)) {
		value, err := c.secret(c.Secrets.Give[name])
		if err != nil {
			return nil, fmt.Errorf("the secret %s: %w", name, err)
		}
		env[name] = value
	}
	written, err := json.Marshal(env)
	if err == nil && len(written) > maxEnvironment {
		err = fmt.Errorf("the variables for commands have %d bytes, more than the %d that fit", len(written), maxEnvironment)
	}
	return env, err
}

// secret reads a value from where it is said to be: "env:NAME", a variable of
// warmbox itself, or "file:PATH".
func (c *Config) secret(from string) (value string, err error) {
	kind, where, _ := strings.Cut(from, ":")
	switch kind {
	case "env":
		if where == "" {
			return "", errors.New(`the name of a variable is missing behind "env:"`)
		}
		value = os.Getenv(where)
	case "file":
		if where == "" {
			return "", errors.New(`the path is missing behind "file:"`)
		}
		value, err = c.private().Read(inHome(where))
	default:
		return "", errors.New(`say where it is, "env:NAME" or "file:PATH"; a value itself does not belong into a configuration`)
	}
	value = strings.TrimRight(value, "\r\n")
	if err == nil && value == "" {
		err = fmt.Errorf("there is nothing in %s", from)
	}
	if strings.ContainsRune(value, 0) {
		err = fmt.Errorf("there is a NUL byte in %s, which no variable can have", from)
	}
	return value, err
}

// tellOfEnv says which variables of [env] a list would not let commands set. They
// are not refused: whoever writes the list may know why, and to release them
// would let the commands set them too.
func (c *Config) tellOfEnv(log *slog.Logger) {
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if c.Lists().CheckEnv(map[string]string{name: c.Env[name]}) != nil {
			log.Warn("a variable in env may choose what code commands run, whatever the list of commands says", "name", name)
		}
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// validNames sees that a table's keys can be variables.
func validNames(table map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if !variableName.MatchString(name) {
			return fmt.Errorf("%q cannot be the name of a variable", name)
		}
	}
	return nil
}

// masked returns the values that no reply shows, and says of which settings in [secrets]
// nothing is masked.
func (c *Config) masked() (values, holes []string) {
	add := func(what, value string) {
		if value = strings.TrimSpace(value); len(value) >= redact.MinValue {
			values = append(values, value)
			return
		}
		holes = append(holes, fmt.Sprintf("%s has %d bytes, so replies show it; only values of %d bytes and more are masked", what, len(value), redact.MinValue))
	}
	env, _ := c.environment() // it was checked when it was read
	for _, name := range slices.Sorted(maps.Keys(c.Secrets.Give)) {
		add("secrets.give: the value of "+name, env[name])
	}
	for _, name := range c.Secrets.Env {
		value, set := os.LookupEnv(name)
		if strings.TrimSpace(value) != "" {
			add("secrets.env: the value of "+name, value)
			continue
		}
		state := "is not set"
		if set {
			state = "is empty"
		}
		holes = append(holes, fmt.Sprintf("secrets.env: the environment variable %s %s, so nothing is masked for it; correct the name, or set it where warmbox is started", name, state))
	}
	return values, holes
}

// maskedNames sees that secrets.env has names of variables.
func (c *Config) maskedNames() error {
	for _, name := range c.Secrets.Env {
		if !variableName.MatchString(name) {
			return fmt.Errorf("%q cannot be the name of a variable", name)
		}
	}
	return nil
}

// givenSecrets sees that they are there, and that no name is given twice.
func (c *Config) givenSecrets() error {
	if err := validNames(c.Secrets.Give); err != nil {
		return err
	}
	for name := range c.Secrets.Give {
		if _, twice := c.Env[name]; twice {
			return fmt.Errorf("%s is in [env] too; leave one of them out", name)
		}
	}
	_, err := c.environment()
	return err
}
