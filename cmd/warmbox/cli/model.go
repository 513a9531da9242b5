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

// newModel returns what summarises in place of the built-in summary; nil where
// nothing does. It has no way to ask a client's own model: the tools have.
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
			keyErr = errors.New("summary.api_key_env too says where the key is; leave one of them out")
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

// hasWhatItNeeds sees that a provider can be asked at all.
func (c *Config) hasWhatItNeeds() error {
	s := c.Summary
	api := s.Provider == "anthropic" || s.Provider == "openai"
	switch {
	case api && s.Model == "":
		return fmt.Errorf("%s needs to be told which model to ask; set summary.model", s.Provider)
	case api && s.BaseURL == "" && s.APIKeyEnv == "" && s.APIKeyFile == "":
		return fmt.Errorf("%s wants a key; set summary.api_key_env or summary.api_key_file", s.Provider)
	case s.Provider == "command" && len(s.Command) == 0:
		return errors.New("there is no command to ask; set summary.command")
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
		return errors.New("this is no URL; write it such as http://localhost:11434/v1")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("such a URL has no user, no query and no fragment; a key goes to summary.api_key_env or summary.api_key_file")
	}
	return nil
}

// reachTime bounds a doctor's question whether an API is there.
const reachTime = 3 * time.Second

// checkSummary tells who summarises. Nothing fails with it: the built-in summary
// is there for every other.
func (d *doctor) checkSummary(ctx context.Context) {
	s := d.Config.Summary
	switch s.Provider {
	case "builtin":
		d.ok("summary", "the built-in one")
	case "none":
		d.ok("summary", "none")
	case "client":
		d.ok("summary", "by the client's own model, where the client offers that")
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
	with := "with"
	if key, _ := d.Config.summaryKey(); !key.IsSet() {
		with = "without"
	}
	what := fmt.Sprintf("%s at %s, %s a key, ", s.Provider, base, with)
	if err := model.Reach(ctx, base); err != nil {
		d.warn("summary", what+"does not answer: "+err.Error(), "until it does, the built-in summary takes its place")
		return
	}
	d.ok("summary", what+"answers; the model is "+s.Model)
}
