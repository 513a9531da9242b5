package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/sandbox"
)

// DefaultAsk is how long a user is asked for. It may be longer than a call waits
// for its command: a person reads, and a client that has less patience cancels
// the call, which takes the question back.
const DefaultAsk = 5 * time.Minute

const (
	// maxQuestions is how many questions to the user of one client wait, where
	// they go back with the answers to its calls.
	maxQuestions = 8

	// askKey names the question in such an answer.
	askKey = "allow"
)

// What a user can answer. Clients show these words as they are.
const (
	answerOnce    = "allow once"
	answerSession = "allow for this session"
	answerDeny    = "deny"
)

// A question is what a user is asked about a command that the list does not
// have. It is an error where the call has to bring it to the client.
type question struct {
	call    execCall // in the box that the user is told of
	denial  error    // what holds unless the user allows it
	message string
	answers []string
	until   time.Time
}

func (q *question) Error() string { return q.denial.Error() }

// askUser asks the user to approve a command, while the call waits where the protocol
// allows that. An error is the denial that stays, with the reason, or the *question that
// the call has to end with.
func (s *Set) askUser(ctx context.Context, box *sandbox.Box, call execCall, denial error, progress func(string)) (sandbox.Approval, error) {
	session, now := asksNow[eliciting](ctx, offersUser)
	call.ContainerID = box.ID
	message, ok := askMessage(box.Describe(), call.ExecArgs, denial)
	switch {
	case !now && !asksBack(ctx, offersUser):
		return "", stays(denial, "The owner lets the user decide, but this client cannot ask its user (MCP elicitation).")
	case now && s.NoWait != nil && s.NoWait(ctx):
		return "", stays(denial, "The user was not asked, since too many calls wait.")
	case !ok:
		return "", stays(denial, "The user was not asked, since it cannot be shown whole: it is too long, or has characters that are not seen. Make it shorter.")
	}
	q := &question{call: call, denial: denial, message: message, answers: answersFor(call.ExecArgs), until: time.Now().Add(s.Ask)}
	if !now {
		return "", q
	}
	return s.askNow(ctx, session, q, progress)
}

// answersFor leaves out the session for a command that reads something: it may
// be another thing each time.
func answersFor(args ExecArgs) []string {
	if args.Stdin != "" || args.Background || args.TTY {
		return []string{answerOnce, answerDeny}
	}
	return []string{answerOnce, answerSession, answerDeny}
}

// eliciting is a session in which the server may ask the user.
type eliciting interface {
	mcpserver.SessionWithClientInfo
	mcpserver.SessionWithElicitation
}

// offersUser is true of a client that shows forms. One that says nothing of
// what it shows means those.
func offersUser(c mcp.ClientCapabilities) bool {
	return c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// askNow asks while the call waits. The question is taken back when the call is
// cancelled, or the user takes too long.
func (s *Set) askNow(ctx context.Context, session eliciting, q *question, progress func(string)) (sandbox.Approval, error) {
	s.logger().Info("the user is asked", "box", q.call.ContainerID)
	stop := beat(progress, "the user is asked whether it may run")
	defer stop()
	ctx, cancel := context.WithDeadline(ctx, q.until)
	defer cancel()
	result, err := session.RequestElicitation(ctx, mcp.ElicitationRequest{
		Request: mcp.Request{Method: string(mcp.MethodElicitationCreate)}, Params: q.params(),
	})
	if err != nil && ctx.Err() == nil {
		s.logger().Warn("the client does not ask its user", "cause", s.Manager.Mask(oneLine(err.Error(), 300)))
	}
	return q.verdict(result)
}

// beat keeps telling the client that its call goes on, until stop is called.
func beat(progress func(string), words string) (stop func()) {
	if progress == nil {
		return func() {}
	}
	progress(words)
	ticker := time.NewTicker(laterBeat)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ticker.C:
				progress(words)
			case <-done:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(done)
		wg.Wait()
	}
}

func (q *question) params() mcp.ElicitationParams {
	answers, _ := json.Marshal(q.answers)
	return mcp.ElicitationParams{
		Message: q.message,
		RequestedSchema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"answer":{"type":"string",`+
			`"title":"May it run?","enum":%s,"default":%q}},"required":["answer"]}`, answers, answerDeny)),
	}
}

// askUserBack answers a call with the question, and keeps the call for the one
// that brings the answer.
func (s *Set) askUserBack(owner sandbox.Owner, q *question) *mcp.CallToolResult {
	id := sandbox.NewID("q")
	if err := s.questions.put(owner, id, q); err != nil {
		return Failed(stays(q.denial, "The user was not asked: "+err.Error()+"."))
	}
	s.logger().Info("the user is asked", "box", q.call.ContainerID)
	return mcpserver.NewInputRequestBuilder(id).Elicit(askKey, q.params()).ToolResult()
}

// allowed returns the call that an answer is about, as the user was shown it.
// What comes beside the answer nobody has seen.
func (q *question) allowed(answers mcp.InputResponses) (execCall, error) {
	allowance, err := q.verdict(mcpserver.ElicitationResponse(answers, askKey))
	call := q.call
	call.ask, call.allowed = false, allowance
	return call, err
}

// verdict returns what the user allows. Whatever is not clearly a yes is a no.
func (q *question) verdict(result *mcp.ElicitationResult) (sandbox.Approval, error) {
	switch {
	case time.Now().After(q.until):
		return "", stays(q.denial, "The user was asked and did not answer in time.")
	case result == nil:
		return "", stays(q.denial, "The client did not bring the user's answer.")
	case result.Action == mcp.ElicitationResponseActionDecline:
		return "", stays(q.denial, "The user was asked and denied it.")
	case result.Action == mcp.ElicitationResponseActionCancel:
		return "", stays(q.denial, "The user was asked and gave no answer.")
	}
	switch answer := answerIn(result); {
	case result.Action != mcp.ElicitationResponseActionAccept || !slices.Contains(q.answers, answer):
		return "", stays(q.denial, "The user was asked, and the client's answer is none of those offered.")
	case answer == answerOnce:
		return sandbox.ApprovedOnce, nil
	case answer == answerSession:
		return sandbox.ApprovedForSession, nil
	}
	return "", stays(q.denial, "The user was asked and denied it.")
}

func answerIn(result *mcp.ElicitationResult) string {
	content, _ := result.Content.(map[string]any)
	answer, _ := content["answer"].(string)
	return answer
}

// stays is a denial that holds, with the reason why the user did not change it.
func stays(denial error, why string) error {
	e, ok := errors.AsType[*sandbox.Error](denial)
	if !ok {
		return denial
	}
	return &sandbox.Error{Code: e.Code, Text: e.Text, Hint: strings.TrimSpace(why + " " + e.Hint), Err: e.Err}
}

// allowedHint tells the model that the list is as it was.
func allowedHint(a sandbox.Approval) string {
	switch a {
	case sandbox.ApprovedOnce:
		return "It is not on the list of allowed commands; the user allowed it this once."
	case sandbox.ApprovedForSession:
		return "It is not on the list of allowed commands; the user allowed it for this session."
	}
	return ""
}
