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

// DefaultAsk is how long a user may take to answer. It may be longer than a call waits for its
// command: a person reads, and a client that does not wait so long cancels the call, which
// withdraws the question.
const DefaultAsk = 5 * time.Minute

const (
	// maxQuestions is how many questions of one owner may be open, in protocol
	// versions in which the reply to a call is the question.
	maxQuestions = 8

	// askKey is the name of the question in such a reply.
	askKey = "allow"
)

// The answers that a user can choose. Clients show them as they are.
const (
	answerOnce    = "allow once"
	answerSession = "allow for this session"
	answerDeny    = "deny"
)

// A question asks a user to approve a command that the allowlist lacks. It is an error if the
// call has to end with it: the client then calls again with the answer.
type question struct {
	call    execCall // with the id of the box that the message names
	denial  error    // the error if the user does not approve
	message string
	answers []string
	until   time.Time
}

func (q *question) Error() string { return q.denial.Error() }

// askUser asks the user to approve a command: while the call waits, if the version of the
// protocol allows that. An error is the denial with the reason why it was not lifted, or the
// *question that the call has to end with.
func (s *Set) askUser(ctx context.Context, box *sandbox.Box, call execCall, denial error, progress func(string)) (sandbox.Approval, error) {
	session, now := asksNow[eliciting](ctx, offersUser)
	call.ContainerID = box.ID
	message, ok := askMessage(box.Describe(), call.ExecArgs, denial)
	switch {
	case !now && !asksBack(ctx, offersUser):
		return "", notApproved(denial, "The owner lets the user decide, but this client cannot ask its user (MCP elicitation).")
	case now && s.mustNotWait(ctx):
		return "", notApproved(denial, "The user was not asked, since too many calls wait.")
	case !ok:
		return "", notApproved(denial, "The user was not asked, since it cannot be shown whole: it is too long, or has characters that are not seen. Make it shorter.")
	}
	q := &question{call: call, denial: denial, message: message, answers: answersFor(call.ExecArgs), until: time.Now().Add(s.Ask)}
	if !now {
		return "", q
	}
	return s.askNow(ctx, session, q, progress)
}

// answersFor returns the answers to choose from. A command with input cannot be approved for the
// session: its input may differ each time.
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

// offersUser reports whether a client shows forms to its user. That is also the meaning of a
// capability without details.
func offersUser(c mcp.ClientCapabilities) bool {
	return c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// askNow asks while the call waits. The question is withdrawn if the call is cancelled or the
// user takes too long.
func (s *Set) askNow(ctx context.Context, session eliciting, q *question, progress func(string)) (sandbox.Approval, error) {
	s.logger().Info("asking the user for approval", "box", q.call.ContainerID)
	stop := repeat(progress, "the user is asked whether it may run")
	defer stop()
	ctx, cancel := context.WithDeadline(ctx, q.until)
	defer cancel()
	result, err := session.RequestElicitation(ctx, mcp.ElicitationRequest{
		Request: mcp.Request{Method: string(mcp.MethodElicitationCreate)}, Params: q.params(),
	})
	if err != nil && ctx.Err() == nil {
		s.logger().Warn("the client cannot ask its user", "cause", s.Manager.Mask(oneLine(err.Error(), 300)))
	}
	return q.verdict(result)
}

// repeat sends a progress message every few seconds, until stop is called.
func repeat(progress func(string), message string) (stop func()) {
	if progress == nil {
		return func() {}
	}
	progress(message)
	ticker := time.NewTicker(nextProgress)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ticker.C:
				progress(message)
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

// params renders the question for the client.
func (q *question) params() mcp.ElicitationParams {
	answers, _ := json.Marshal(q.answers)
	return mcp.ElicitationParams{
		Message: q.message,
		RequestedSchema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"answer":{"type":"string",`+
			`"title":"May it run?","enum":%s,"default":%q}},"required":["answer"]}`, answers, answerDeny)),
	}
}

// replyWithQuestion returns the question as the reply to a call, and stores the call until the
// client calls again with the answer.
func (s *Set) replyWithQuestion(owner sandbox.Owner, q *question) *mcp.CallToolResult {
	id := sandbox.NewID("q")
	if err := s.questions.add(owner, id, q); err != nil {
		return Failed(notApproved(q.denial, "The user was not asked: "+err.Error()+"."))
	}
	s.logger().Info("asking the user for approval", "box", q.call.ContainerID)
	return mcpserver.NewInputRequestBuilder(id).Elicit(askKey, q.params()).ToolResult()
}

// approved returns the call that the user approved, as the message showed it. The arguments that
// come with the answer are ignored: the user has not seen them.
func (q *question) approved(answers mcp.InputResponses) (execCall, error) {
	approval, err := q.verdict(mcpserver.ElicitationResponse(answers, askKey))
	call := q.call
	call.ask, call.approval = false, approval
	return call, err
}

// verdict returns the user's approval. Every answer that is not clearly a yes is a no.
func (q *question) verdict(result *mcp.ElicitationResult) (sandbox.Approval, error) {
	switch {
	case time.Now().After(q.until):
		return "", notApproved(q.denial, "The user was asked and did not answer in time.")
	case result == nil:
		return "", notApproved(q.denial, "The client did not return the user's answer.")
	case result.Action == mcp.ElicitationResponseActionDecline:
		return "", notApproved(q.denial, "The user was asked and denied it.")
	case result.Action == mcp.ElicitationResponseActionCancel:
		return "", notApproved(q.denial, "The user was asked and gave no answer.")
	}
	switch answer := answerIn(result); {
	case result.Action != mcp.ElicitationResponseActionAccept || !slices.Contains(q.answers, answer):
		return "", notApproved(q.denial, "The user was asked, and the client returned an answer that was not offered.")
	case answer == answerOnce:
		return sandbox.ApprovedOnce, nil
	case answer == answerSession:
		return sandbox.ApprovedForSession, nil
	}
	return "", notApproved(q.denial, "The user was asked and denied it.")
}

// answerIn returns the answer that the user chose, "" if there is none.
func answerIn(result *mcp.ElicitationResult) string {
	content, _ := result.Content.(map[string]any)
	answer, _ := content["answer"].(string)
	return answer
}

// notApproved returns a denial with the reason why the user did not lift it.
func notApproved(denial error, why string) error {
	e, ok := errors.AsType[*sandbox.Error](denial)
	if !ok {
		return denial
	}
	return &sandbox.Error{Code: e.Code, Text: e.Text, Hint: strings.TrimSpace(why + " " + e.Hint), Err: e.Err}
}

// approvalHint says that the user approved the command, and that the allowlist has not changed.
func approvalHint(a sandbox.Approval) string {
	switch a {
	case sandbox.ApprovedOnce:
		return "The command is not on the list of allowed commands; the user allowed it this once."
	case sandbox.ApprovedForSession:
		return "The command is not on the list of allowed commands; the user allowed it for this session."
	}
	return ""
}
