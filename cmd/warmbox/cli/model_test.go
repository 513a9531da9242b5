package cli

import (
	"log/slog"
	"testing"
)

func TestWhoSummarises(t *testing.T) {
	for provider, want := range map[string]struct{ model, client, nobody bool }{
		"builtin":   {},
		"none":      {nobody: true},
		"client":    {client: true},
		"command":   {model: true},
		"openai":    {model: true},
		"anthropic": {model: true},
	} {
		clean(t)
		t.Setenv("A_KEY", "sk-0123456789")
		c := mustLoad(t, map[string]string{
			"summary-provider": provider, "summary-model": "m", "summary-command": "true", "summary-api-key-env": "A_KEY",
		})
		set, err := newTools(c, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if (set.Model != nil) != want.model || (set.Sampler != nil) != want.client || set.Terse != want.nobody {
			t.Errorf("%s: model %v, sampler %v, terse %v", provider, set.Model, set.Sampler, set.Terse)
		}
		if set.Model != nil && set.Model.Name() != provider {
			t.Errorf("%s calls itself %s", provider, set.Model.Name())
		}
	}
}
