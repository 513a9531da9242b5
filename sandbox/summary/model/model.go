// Package model has a language model write the summary of an output: through
// the API of Anthropic or OpenAI, or of any server that speaks as one of them,
// or through a command.
//
// A model is told of an output what summary.Digest holds, and has no tools. It
// may be slow, wrong, or under the influence of what it reads, for the output of
// a command can say anything. So what it writes is checked against the digest
// and against how the command ended, and thrown away where it says more than
// they do. This package does not fall back to another summary, mask secrets or
// call twice.
//
// The caller must have masked the secrets of a digest, must have another summary
// for when there is none from here, and must never take an exit code from one.
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

// A Model asks for summaries and vouches for the form of what comes back. It is
// safe for use by several goroutines; its fields are set before.
type Model struct {
	Provider  string        // who is said to have written a summary
	Ask       summary.Func  // returns soon after its context ends; nil where the caller asks, by Question and Accept
	Timeout   time.Duration // of one call; 0 is DefaultTimeout
	PerMinute int           // calls at most; 0 is DefaultPerMinute
	MaxInput  int           // bytes of kept lines that are given away; 0 is summary.KeptBytes

	quota quota
}

// What holds where a Model does not say otherwise.
const (
	DefaultTimeout   = 5 * time.Second // a reader waits for a summary; the built-in one is there at once
	DefaultPerMinute = 20
)

// maxReply bounds a summary. One that is asked for in 200 tokens has 800 bytes.
const maxReply = 4 << 10

// Name is who writes the summaries.
func (m *Model) Name() string { return m.Provider }

// Patience is how long an answer is waited for.
func (m *Model) Patience() time.Duration { return cmp.Or(m.Timeout, DefaultTimeout) }

// Summarize returns a summary that says nothing which the digest refutes, or an
// error that says why there is none. It takes no longer than Patience.
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

// Question returns what to ask a model that only the caller can reach. It counts
// as a call.
func (m *Model) Question(d summary.Digest) (system, user string, err error) {
	if err := m.admit(); err != nil {
		return "", "", err
	}
	system, user = prompt(shorten(d, m.maxInput()))
	return system, user, nil
}

// Accept returns a reply as it may be shown, or an error that names the rule
// that it breaks.
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
	if !m.quota.take(time.Now(), most) {
		return fmt.Errorf("summary by %s: %d calls in a minute is the limit, and it is reached", m.Provider, most)
	}
	return nil
}

// ask bounds a call in time. A summary is worth no crash, so a provider that
// panics has failed, and no more than that.
func (m *Model) ask(ctx context.Context, d summary.Digest) (reply string, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.Patience())
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panicked: %.200q", fmt.Sprint(p))
		}
	}()
	reply, err = m.Ask(ctx, d)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", m.Patience())
	}
	return reply, err
}

// A quota admits so many calls in any minute.
type quota struct {
	mu    sync.Mutex
	calls []time.Time // of the last minute
}

func (q *quota) take(now time.Time, most int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = slices.DeleteFunc(q.calls, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	if len(q.calls) >= most {
		return false
	}
	q.calls = append(q.calls, now)
	return true
}
