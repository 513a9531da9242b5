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

// A Sampler has the model of the calling client itself write summaries, in
// place of the built-in ones, where the client offers that. It says what to ask
// and judges what comes back.
type Sampler interface {
	// Question returns what to ask about an output, or an error where nothing
	// may be asked now.
	Question(d summary.Digest) (system, user string, err error)
	// Accept returns an answer as it may be shown, or the rule that it breaks.
	Accept(answer string, d summary.Digest) (string, error)
	// WaitLimit returns how long a call waits for an answer.
	WaitLimit() time.Duration
}

// byClient is who writes such a summary.
const byClient = "client"

const (
	// sampleTokens bounds what the client's model may write, with room to think
	// before 200 tokens of summary.
	sampleTokens = 1024

	// sampleKey names the only question that an answer ever asks.
	sampleKey = "summary"
)

// sample has the client's model summarise, where the server may ask it while the
// call waits. Where the question goes back with the answer, it keeps what that
// needs, and the built-in summary stands for now.
func (s *Set) sample(ctx context.Context, d summary.Digest, r *ExecResult) {
	if s.Sampler == nil {
		return
	}
	if session, ok := asksNow[sampling](ctx, offersModel); ok {
		text, err := s.askModel(ctx, session, d)
		s.take(r, text, err)
	} else if asksBack(ctx, offersModel) {
		r.digest = &d
	}
}

// take gives a result the client's summary, or says why it keeps the one that it
// has.
func (s *Set) take(r *ExecResult, text string, err error) {
	if err != nil {
		s.logger().Warn("no summary by the client's model, so it is the built-in one", "exec", r.ExecID, "cause", oneLine(err.Error(), 300))
		return
	}
	r.Summary, r.SummaryBy = text, byClient
}

// sampling is a session in which the server may ask.
type sampling interface {
	mcpserver.SessionWithClientInfo
	mcpserver.SessionWithSampling
}

func offersModel(c mcp.ClientCapabilities) bool { return c.Sampling != nil }

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
	return s.Sampler.Accept(words(answer), d)
}

func (s *Set) question(d summary.Digest) (mcp.CreateMessageParams, error) {
	system, user, err := s.Sampler.Question(d)
	return mcp.CreateMessageParams{
		SystemPrompt: system, MaxTokens: sampleTokens,
		Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(user)}},
	}, err
}

// words returns the text of what a model answered.
func words(answer *mcp.CreateMessageResult) string {
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

// askBack answers a call with the question, and keeps the result for the call
// that brings the answer. It returns nil where there is nothing to ask.
func (s *Set) askBack(owner sandbox.Owner, r ExecResult) *mcp.CallToolResult {
	if r.digest == nil {
		return nil
	}
	params, err := s.question(*r.digest)
	if err == nil {
		err = s.results.put(owner, r.ExecID, r)
	}
	if err != nil {
		s.take(&r, "", err)
		return nil
	}
	return mcpserver.NewInputRequestBuilder(r.ExecID).Sample(sampleKey, params).ToolResult()
}

// answered finds the result that an answer belongs to, and gives it the summary.
func (s *Set) answered(owner sandbox.Owner, req mcp.CallToolRequest) (ExecResult, error) {
	r, ok := s.results.take(owner, req.Params.RequestState)
	if !ok {
		return r, invalid("No command was run. What earlier ones printed is read with logs; to run one, leave requestState out.",
			"no result waits under the requestState %q", clip(req.Params.RequestState))
	}
	full := r
	text, err := s.judge(mcpserver.SamplingResponse(req.Params.InputResponses, sampleKey), *r.digest)
	s.take(&full, text, err)
	if full.size() > maxResult-envelope {
		return r, nil
	}
	return full, nil
}

func (s *Set) judge(answer *mcp.CreateMessageResult, d summary.Digest) (string, error) {
	if answer == nil {
		return "", errors.New("the client brings no answer")
	}
	return s.Sampler.Accept(words(answer), d)
}
