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

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/redact"
	"github.com/warmbox/warmbox/userdir"
)

// maxEnvironment bounds the variables that the configuration adds to the environment
// of commands. A box receives them in one message, with those of the start call.
const maxEnvironment = sandbox.MaxDefaultEnv

// environment returns the variables for every command, besides the few that warmbox
// sets itself: [env] and [secrets.give]. The agent receives them in its first message,
// so they appear on no disk, in no command line and in nothing that the engine reports.
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
		err = fmt.Errorf("the variables for commands have %d bytes together, and the maximum is %d", len(written), maxEnvironment)
	}
	return env, err
}

// secret reads a value from its source: "env:NAME", a variable of warmbox itself, or
// "file:PATH".
func (c *Config) secret(from string) (value string, err error) {
	kind, where, _ := strings.Cut(from, ":")
	switch kind {
	case "env":
		if where == "" {
			return "", errors.New(`"env:" needs the name of a variable after it`)
		}
		if value = os.Getenv(where); value == "" {
			return "", fmt.Errorf("the environment variable %s is not set or empty", where)
		}
	case "file":
		if where == "" {
			return "", errors.New(`"file:" needs a path after it`)
		}
		value, err = c.private().Read(userdir.Expand(where))
	default:
		return "", errors.New(`write "env:NAME" or "file:PATH"; the value itself does not belong in a configuration`)
	}
	value = strings.TrimRight(value, "\r\n")
	if err == nil && value == "" {
		err = fmt.Errorf("%s contains no value", from)
	}
	if strings.ContainsRune(value, 0) {
		err = fmt.Errorf("the value of %s must not contain a NUL byte", from)
	}
	return value, err
}

// warnOfEnv logs the variables of [env] that the list of commands does not let commands
// set. They are not refused: the author of the configuration may have a reason, and
// commands.release would let the commands set them too.
func (c *Config) warnOfEnv(log *slog.Logger) {
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if c.Lists().CheckEnv(map[string]string{name: c.Env[name]}) != nil {
			log.Warn("a variable in env can choose what code commands run, which the list of commands does not check", "name", name)
		}
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// validNames checks that the keys of a table are names of variables.
func validNames(table map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if !variableName.MatchString(name) {
			return fmt.Errorf("%q is not a valid name of a variable", name)
		}
	}
	return nil
}

// masked returns the values that no reply shows, and a sentence for each setting in
// [secrets] for which nothing is masked.
func (c *Config) masked() (values, holes []string) {
	add := func(what, value string) {
		if value = strings.TrimSpace(value); len(value) >= redact.MinValue {
			values = append(values, value)
			return
		}
		holes = append(holes, fmt.Sprintf("%s has %d bytes, so replies show it; only values of at least %d bytes are masked", what, len(value), redact.MinValue))
	}
	env, _ := c.environment() // check has refused errors
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

// maskedNames checks that secrets.env has names of variables.
func (c *Config) maskedNames() error {
	for _, name := range c.Secrets.Env {
		if !variableName.MatchString(name) {
			return fmt.Errorf("%q is not a valid name of a variable", name)
		}
	}
	return nil
}

// givenSecrets checks that their values exist, and that no name is also in [env].
func (c *Config) givenSecrets() error {
	if err := validNames(c.Secrets.Give); err != nil {
		return err
	}
	for name := range c.Secrets.Give {
		if _, twice := c.Env[name]; twice {
			return fmt.Errorf("%s is also in [env]; remove one of them", name)
		}
	}
	_, err := c.environment()
	return err
}
