package model

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/warmbox/warmbox/sandbox/summary"
)

// AnthropicURL is the base URL of Anthropic's API.
const AnthropicURL = "https://api.anthropic.com"

// Anthropic returns a Func that calls a model through the Messages API.
func Anthropic(o Options) summary.Func {
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type message struct {
		Role    string `json:"role"`
		Content []text `json:"content"`
	}
	type request struct {
		Model     string    `json:"model"`
		MaxTokens int       `json:"max_tokens"`
		System    []text    `json:"system"`
		Messages  []message `json:"messages"`
	}
	header := http.Header{"Anthropic-Version": {"2023-06-01"}}
	if o.Key.IsSet() {
		header.Set("X-Api-Key", o.Key.text())
	}
	e := newEndpoint(cmp.Or(o.BaseURL, AnthropicURL), "/v1/messages", header, o.Key)
	return func(ctx context.Context, d summary.Digest) (string, error) {
		system, user := prompt(d)
		var answer struct{ Content []text }
		err := e.ask(ctx, request{
			o.Model, maxTokens, []text{{"text", system}},
			[]message{{"user", []text{{"text", user}}}},
		}, &answer)
		var reply strings.Builder
		for _, block := range answer.Content {
			reply.WriteString(block.Text)
		}
		return reply.String(), err
	}
}
