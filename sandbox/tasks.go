package sandbox

import (
	"context"
	"sync"
)

// tasks are the goroutines of a Manager that outlive a call. The zero value is ready.
type tasks struct {
	mu     sync.Mutex
	closed bool
	ctx    context.Context // of the tasks; nil until there is one
	cancel context.CancelFunc
	once   map[taskKey]chan struct{} // of runOnce; closed when the task has ended

	running sync.WaitGroup
}

// A taskKey names a task that runs once.
type taskKey struct{ what, of string }

// begin admits a caller's work as a task until done is called, and reports false after
// close.
func (t *tasks) begin() (done func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false
	}
	t.running.Add(1)
	return t.running.Done, true
}

// run starts a task whose ctx ends with close. After close it does nothing.
func (t *tasks) run(f func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.start(f)
}

// runOnce is run for the first call of a key.
func (t *tasks) runOnce(key taskKey, f func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.once[key] != nil {
		return
	}
	if t.once == nil {
		t.once = map[taskKey]chan struct{}{}
	}
	done := make(chan struct{})
	t.once[key] = done
	t.start(func(ctx context.Context) {
		defer close(done)
		f(ctx)
	})
}

// start starts a task. The caller holds t.mu.
func (t *tasks) start(f func(context.Context)) {
	if !t.closed {
		ctx := t.life()
		t.running.Go(func() { f(ctx) })
	}
}

// fork runs f beside a task under way, also after close.
func (t *tasks) fork(f func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx := t.life()
	t.running.Go(func() { f(ctx) })
}

// life returns the ctx of all tasks, which ends with close. The caller holds t.mu.
func (t *tasks) life() context.Context {
	if t.ctx == nil {
		t.ctx, t.cancel = context.WithCancel(context.Background())
	}
	return t.ctx
}

// ended returns a channel that is closed when the task of a key has ended, nil where
// none was started.
func (t *tasks) ended(key taskKey) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if done := t.once[key]; done != nil {
		return done
	}
	return nil
}

// close ends the ctx of all tasks, and admits no other.
func (t *tasks) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.life()
	t.cancel()
}

// wait waits for all tasks. It is called after close.
func (t *tasks) wait() { t.running.Wait() }
