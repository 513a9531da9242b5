package model

import (
	"cmp"
	"context"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/warmbox/warmbox/sandbox/summary"
)

// AnthropicURL is where Anthropic's API is.
const AnthropicURL = "https://api.anthropic.com"

// Anthropic returns a Func that asks a model through the Messages API.
func Anthropic(o Options) summary.Func {
	// A client would look for keys and addresses in the environment and in the
	// home directory. The service alone knows what it is given here.
	messages := anthropic.NewMessageService(
		option.WithBaseURL(cmp.Or(o.BaseURL, AnthropicURL)),
		option.WithHTTPClient(newClient(o.Key)),
		option.WithMaxRetries(0),
		option.WithHeader("X-Api-Key", o.Key.text()),
	)
	return func(ctx context.Context, d summary.Digest) (string, error) {
		system, user := prompt(d)
		answer, err := messages.New(ctx, anthropic.MessageNewParams{
			Model:     anthropic.Model(o.Model),
			MaxTokens: maxTokens,
			System:    []anthropic.TextBlockParam{{Text: system}},
			Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(user))},
		})
		if err != nil {
			return "", o.Key.cleanse(err)
		}
		var reply strings.Builder
		for _, block := range answer.Content {
			reply.WriteString(block.Text)
		}
		return reply.String(), nil
	}
}
