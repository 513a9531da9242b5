// Package model lets a language model write the summary of an output: through the API
// of Anthropic or OpenAI, of any server with a compatible API, or through a command.
//
// The model gets a summary.Digest and no tools. It may be slow, wrong, or influenced by
// the output, which can say anything. So the package checks its reply against the
// digest and the exit of the command, and rejects a reply that claims more. The package
// does not fall back to another summary, does not mask secrets and does not retry.
//
// The caller must mask the secrets of a digest, must have another summary in case of an
// error, and must never read an exit code from a reply.
package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/summary"
)

// A Model requests summaries and checks the replies. It is safe for concurrent use. Its
// fields must not change after the first call.
type Model struct {
	Provider  string        // shown as the author of a summary
	Ask       summary.Func  // must return soon after its context ends; nil: the caller asks, with Question and Accept
	Timeout   time.Duration // of one call; 0: DefaultTimeout
	PerMinute int           // maximum number of calls; 0: DefaultPerMinute
	MaxInput  int           // maximum bytes of kept lines in a prompt; 0: summary.KeptBytes

	quota quota
}

// Defaults of a Model.
const (
	DefaultTimeout   = 5 * time.Second // a reader waits for the reply; the built-in summary is ready immediately
	DefaultPerMinute = 20
)

// maxReply bounds a summary. The prompt asks for 200 tokens, about 800 bytes.
const maxReply = 4 << 10

// Name returns the provider.
func (m *Model) Name() string { return m.Provider }

// WaitLimit returns how long to wait for a reply.
func (m *Model) WaitLimit() time.Duration { return cmp.Or(m.Timeout, DefaultTimeout) }

// Summarize returns a summary that does not contradict the digest, or an error. It
// returns within WaitLimit.
func (m *Model) Summarize(ctx context.Context, d summary.Digest) (string, error) {
	err := m.admit()
	if err != nil {
		return "", err
	}
	reply, err := m.ask(ctx, shorten(d, m.maxInput()))
	if err != nil {
		return "", fmt.Errorf("summary by %s: %w", m.Provider, err)
	}
	return m.Accept(reply, d)
}

// Question returns the prompt for a model that only the caller can reach. It counts as
// a call.
func (m *Model) Question(d summary.Digest) (system, user string, err error) {
	if err := m.admit(); err != nil {
		return "", "", err
	}
	system, user = prompt(shorten(d, m.maxInput()))
	return system, user, nil
}

// Accept returns a reply as it may be shown, or an error that names the broken rule.
func (m *Model) Accept(reply string, d summary.Digest) (string, error) {
	text, err := accept(reply, d)
	if err != nil {
		return "", fmt.Errorf("summary by %s: %w", m.Provider, err)
	}
	return text, nil
}

func (m *Model) maxInput() int { return cmp.Or(m.MaxInput, summary.KeptBytes) }

func (m *Model) admit() error {
	most := cmp.Or(m.PerMinute, DefaultPerMinute)
	if !m.quota.admit(time.Now(), most) {
		return fmt.Errorf("summary by %s: the limit of %d calls in a minute is reached", m.Provider, most)
	}
	return nil
}

// ask makes a call with a timeout. It returns a panic of the provider as an error: the
// server must not crash for a summary.
func (m *Model) ask(ctx context.Context, d summary.Digest) (reply string, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.WaitLimit())
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the provider panicked: %.200q", fmt.Sprint(p))
		}
	}()
	reply, err = m.Ask(ctx, d)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", m.WaitLimit())
	}
	return reply, err
}

// A quota limits the number of calls in any minute.
type quota struct {
	mu    sync.Mutex
	calls []time.Time // calls of the last minute
}

func (q *quota) admit(now time.Time, most int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = slices.DeleteFunc(q.calls, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	if len(q.calls) >= most {
		return false
	}
	q.calls = append(q.calls, now)
	return true
}
