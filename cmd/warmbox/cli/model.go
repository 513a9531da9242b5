package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"time"

	"github.com/warmbox/warmbox/sandbox/summary"
	"github.com/warmbox/warmbox/sandbox/summary/model"
)

// newModel returns the model that replaces the built-in summary, or nil. For the
// client's own model Ask is nil: only the tools can reach it.
func newModel(c *Config) (*model.Model, error) {
	ask, err := newAsk(c)
	if err != nil || ask == nil && c.Summary.Provider != "client" {
		return nil, err
	}
	return &model.Model{
		Provider: c.Summary.Provider, Ask: ask, Timeout: time.Duration(c.Summary.Timeout),
		PerMinute: c.Summary.PerMinute, MaxInput: int(c.Summary.MaxInput),
	}, nil
}

func newAsk(c *Config) (summary.Func, error) {
	key, err := c.summaryKey()
	if err != nil {
		return nil, err
	}
	o := model.Options{Model: c.Summary.Model, BaseURL: c.Summary.BaseURL, Key: key}
	switch c.Summary.Provider {
	case "anthropic":
		return model.Anthropic(o), nil
	case "openai":
		return model.OpenAI(o), nil
	case "command":
		return model.Command(c.Summary.Command...), nil
	}
	return nil, nil
}

func (c *Config) summaryKey() (key model.Key, err error) {
	from, text := c.Summary.APIKeyEnv, ""
	switch {
	case c.Summary.APIKeyFile != "":
		from = c.Summary.APIKeyFile
		text, err = c.private().Read(from)
	case c.Summary.APIKeyEnv != "":
		text = os.Getenv(from)
	default:
		return model.Key{}, nil
	}
	if err != nil {
		return model.Key{}, err
	}
	if key, err = model.NewKey(text); err != nil {
		err = fmt.Errorf("%s: %w", from, err)
	}
	return key, err
}

func (c *Config) summaryRules() []rule {
	_, keyErr := c.summaryKey()
	keyFrom := "summary.api_key_env"
	if c.Summary.APIKeyFile != "" {
		keyFrom = "summary.api_key_file"
		if c.Summary.APIKeyEnv != "" {
			keyErr = errors.New("summary.api_key_env is also set; remove one of them")
		}
	}
	return []rule{
		{"summary.provider", oneOf(c.Summary.Provider, "builtin", "anthropic", "openai", "command", "client", "none")},
		{"summary.base_url", validBase(c.Summary.BaseURL)},
		{keyFrom, keyErr},
		{"summary.command", c.hasProgram()},
		{"summary.provider", c.hasWhatItNeeds()},
		{"summary.timeout", between(time.Duration(c.Summary.Timeout), 100*time.Millisecond, time.Minute)},
		{"summary.max_input", between(c.Summary.MaxInput, 1<<10, summary.KeptBytes)},
		{"summary.per_minute", between(c.Summary.PerMinute, 1, 1000)},
	}
}

// hasWhatItNeeds checks that the settings of the provider are complete.
func (c *Config) hasWhatItNeeds() error {
	s := c.Summary
	api := s.Provider == "anthropic" || s.Provider == "openai"
	switch {
	case api && s.Model == "":
		return fmt.Errorf("%s needs the name of a model; set summary.model", s.Provider)
	case api && s.BaseURL == "" && s.APIKeyEnv == "" && s.APIKeyFile == "":
		return fmt.Errorf("%s needs an API key; set summary.api_key_env or summary.api_key_file", s.Provider)
	case s.Provider == "command" && len(s.Command) == 0:
		return errors.New("command needs a program; set summary.command")
	}
	return nil
}

func (c *Config) hasProgram() error {
	if len(c.Summary.Command) == 0 {
		return nil
	}
	_, err := exec.LookPath(c.Summary.Command[0])
	return err
}

func validBase(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("not a URL; write it like http://localhost:11434/v1")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("the URL must not have a user, a query or a fragment; a key belongs in summary.api_key_env or summary.api_key_file")
	}
	return nil
}

// reachTime bounds doctor's check that an API answers.
const reachTime = 3 * time.Second

// checkSummary reports what summarises. It never fails: the built-in summary replaces
// any other.
func (d *doctor) checkSummary(ctx context.Context) {
	s := d.Config.Summary
	switch s.Provider {
	case "builtin":
		d.ok("summary", "built-in")
	case "none":
		d.ok("summary", "none")
	case "client":
		d.ok("summary", "the client's own model, if the client offers it")
	case "command":
		program, _ := exec.LookPath(s.Command[0])
		d.ok("summary", "command: "+program)
	default:
		d.checkAPI(ctx)
	}
}

func (d *doctor) checkAPI(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	s := d.Config.Summary
	base := cmp.Or(s.BaseURL, map[string]string{"anthropic": model.AnthropicURL, "openai": model.OpenAIURL}[s.Provider])
	key := "with a key"
	if k, _ := d.Config.summaryKey(); !k.IsSet() {
		key = "without a key"
	}
	what := fmt.Sprintf("%s at %s, %s, ", s.Provider, base, key)
	if err := model.Reach(ctx, base); err != nil {
		d.warn("summary", what+"does not answer: "+err.Error(), "until it does, the built-in summary is used")
		return
	}
	d.ok("summary", what+"answers; the model is "+s.Model)
}
