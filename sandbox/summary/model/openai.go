package model

import (
	"context"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/warmbox/warmbox/sandbox/summary"
)

// OpenAIURL is where OpenAI's API is.
const OpenAIURL = "https://api.openai.com/v1"

// OpenAI returns a Func that asks a model through the Chat Completions API,
// which Ollama, vLLM, LM Studio, llama.cpp and many others speak too.
func OpenAI(o Options) summary.Func {
	params := openai.ChatCompletionNewParams{Model: o.Model}
	// OpenAI's newer models refuse the older of these names, and other servers
	// do not know the newer one.
	if o.BaseURL == "" {
		o.BaseURL = OpenAIURL
		params.MaxCompletionTokens = openai.Int(maxTokens)
	} else {
		params.MaxTokens = openai.Int(maxTokens)
	}
	chat := newChat(o)
	return func(ctx context.Context, d summary.Digest) (string, error) {
		system, user := prompt(d)
		params := params
		params.Messages = []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(system), openai.UserMessage(user)}
		answer, err := chat.New(ctx, params)
		if err != nil {
			return "", o.Key.cleanse(err)
		}
		if len(answer.Choices) == 0 {
			return "", errors.New("the answer holds no reply")
		}
		return answer.Choices[0].Message.Content, nil
	}
}

// newChat makes the one service that is needed. A client would look for keys
// and addresses in the environment.
func newChat(o Options) openai.ChatCompletionService {
	options := []option.RequestOption{
		option.WithBaseURL(o.BaseURL),
		option.WithHTTPClient(newClient(o.Key)),
		option.WithMaxRetries(0),
	}
	if o.Key.IsSet() {
		options = append(options, option.WithAPIKey(o.Key.text()))
	}
	return openai.NewChatCompletionService(options...)
}
