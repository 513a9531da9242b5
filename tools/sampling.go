package tools

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/summary"
)

// A Sampler has the model of the calling client write summaries, if the client offers that. It
// makes the question and checks the answer.
type Sampler interface {
	// Question returns the question about an output, or an error if the model must
	// not be asked now.
	Question(d summary.Digest) (system, user string, err error)
	// Accept returns an answer as it may be shown, or the rule that it breaks.
	Accept(answer string, d summary.Digest) (string, error)
	// WaitLimit returns how long a call waits for an answer.
	WaitLimit() time.Duration
}

// byClient is the author of such a summary.
const byClient = "client"

const (
	// sampleTokens bounds the answer of the model: 200 tokens of summary, and room to
	// think before.
	sampleTokens = 1024

	// sampleKey is the name of the question in a reply.
	sampleKey = "summary"
)

// sample has the client's model summarise, if the server may ask while the call waits. If the
// question has to be the reply to the call, it stores the digest for replyWithSampling, and the
// result keeps the built-in summary for now.
func (s *Set) sample(ctx context.Context, d summary.Digest, r *ExecResult) {
	if s.Sampler == nil {
		return
	}
	if session, ok := asksNow[sampling](ctx, offersModel); ok {
		text, err := s.askModel(ctx, session, d)
		s.useAnswer(r, text, err)
	} else if asksBack(ctx, offersModel) {
		r.digest = &d
	}
}

// useAnswer replaces the summary of a result by the client's, or logs why it does not.
func (s *Set) useAnswer(r *ExecResult, text string, err error) {
	if err != nil {
		s.logger().Warn("no summary by the client's model; using the built-in one", "exec", r.ExecID, "cause", oneLine(err.Error(), 300))
		return
	}
	r.summarizedBy(byClient, text)
}

// sampling is a session in which the server may ask the model.
type sampling interface {
	mcpserver.SessionWithClientInfo
	mcpserver.SessionWithSampling
}

// offersModel reports whether a client offers its model.
func offersModel(c mcp.ClientCapabilities) bool { return c.Sampling != nil }

// askModel asks the model while the call waits.
func (s *Set) askModel(ctx context.Context, session sampling, d summary.Digest) (string, error) {
	params, err := s.question(d)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Sampler.WaitLimit())
	defer cancel()
	answer, err := session.RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: params})
	if err != nil {
		return "", err
	}
	return s.Sampler.Accept(answerText(answer), d)
}

// question returns the question about an output.
func (s *Set) question(d summary.Digest) (mcp.CreateMessageParams, error) {
	system, user, err := s.Sampler.Question(d)
	return mcp.CreateMessageParams{
		SystemPrompt: system, MaxTokens: sampleTokens,
		Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(user)}},
	}, err
}

// answerText returns the text of a model's answer.
func answerText(answer *mcp.CreateMessageResult) string {
	if answer == nil {
		return ""
	}
	content, err := mcp.ParseSamplingContent(answer.Content)
	if err != nil {
		return ""
	}
	blocks, ok := content.([]mcp.Content)
	if one, single := content.(mcp.Content); !ok && single {
		blocks = []mcp.Content{one}
	}
	var b strings.Builder
	for _, block := range blocks {
		if text, ok := block.(mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String()
}

// replyWithSampling returns the question to the model as the reply to a call, and stores the
// result until the client calls again with the answer. It returns nil if there is no question.
func (s *Set) replyWithSampling(owner sandbox.Owner, r ExecResult) *mcp.CallToolResult {
	if r.digest == nil {
		return nil
	}
	params, err := s.question(*r.digest)
	if err == nil {
		err = s.results.add(owner, r.ExecID, r)
	}
	if err != nil {
		s.useAnswer(&r, "", err)
		return nil
	}
	return mcpserver.NewInputRequestBuilder(r.ExecID).Sample(sampleKey, params).ToolResult()
}

// answered returns the result that an answer belongs to, with the summary of the answer.
func (s *Set) answered(owner sandbox.Owner, req mcp.CallToolRequest) (ExecResult, error) {
	r, ok := s.results.claim(owner, req.Params.RequestState)
	if !ok {
		return r, invalid("No command was run. To read the output of an earlier command, call logs; to run a command, leave requestState out.",
			"no question is open with the requestState %q", clip(req.Params.RequestState))
	}
	full := r
	text, err := s.judge(mcpserver.SamplingResponse(req.Params.InputResponses, sampleKey), *r.digest)
	s.useAnswer(&full, text, err)
	if full.size() > maxResult-envelope {
		return r, nil
	}
	return full, nil
}

// judge returns the summary of an answer, or why it is not used.
func (s *Set) judge(answer *mcp.CreateMessageResult, d summary.Digest) (string, error) {
	if answer == nil {
		return "", errors.New("the client sent no answer")
	}
	return s.Sampler.Accept(answerText(answer), d)
}
