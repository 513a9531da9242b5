package model

import (
	"context"
	"errors"
	"net/http"

	"github.com/warmbox/warmbox/sandbox/summary"
)

// OpenAIURL is the base URL of OpenAI's API.
const OpenAIURL = "https://api.openai.com/v1"

// OpenAI returns a Func that calls a model through the Chat Completions API, which
// Ollama, vLLM, LM Studio, llama.cpp and many others also offer.
func OpenAI(o Options) summary.Func {
	type message struct {
		Role    string `json:"role,omitempty"`
		Content string `json:"content"`
	}
	type request struct {
		Model               string    `json:"model"`
		MaxTokens           int       `json:"max_tokens,omitempty"`
		MaxCompletionTokens int       `json:"max_completion_tokens,omitempty"`
		Messages            []message `json:"messages"`
	}
	// OpenAI's newer models refuse max_tokens, and other servers do not know
	// max_completion_tokens.
	base, asked := o.BaseURL, request{Model: o.Model, MaxTokens: maxTokens}
	if base == "" {
		base, asked = OpenAIURL, request{Model: o.Model, MaxCompletionTokens: maxTokens}
	}
	header := http.Header{}
	if o.Key.IsSet() {
		header.Set("Authorization", "Bearer "+o.Key.text())
	}
	e := newEndpoint(base, "/chat/completions", header, o.Key)
	return func(ctx context.Context, d summary.Digest) (string, error) {
		system, user := prompt(d)
		asked := asked
		asked.Messages = []message{{"system", system}, {"user", user}}
		var answer struct{ Choices []struct{ Message message } }
		if err := e.ask(ctx, asked, &answer); err != nil {
			return "", err
		}
		if len(answer.Choices) == 0 {
			return "", errors.New("the response has no reply")
		}
		return answer.Choices[0].Message.Content, nil
	}
}
