package sandbox

import (
	"context"
	"sync"
)

// claims let one caller at a time do something of a key: a burst of calls for one box
// starts one.
type claims struct {
	mu   sync.Mutex
	held map[claimKey]chan struct{} // closed when the claim is released
}

// A claimKey names what one caller at a time does: it starts the box of that name, the
// owner's default box where there is none.
type claimKey struct {
	owner Owner
	name  string
}

// acquire waits until no other caller holds a key.
func (c *claims) acquire(ctx context.Context, key claimKey) (release func(), err error) {
	for {
		mine, other := c.try(key)
		if mine != nil {
			return func() { c.release(key, mine) }, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try claims a key, or returns the channel of the claim that holds it.
func (c *claims) try(key claimKey) (mine, other chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other = c.held[key]; other != nil {
		return nil, other
	}
	if c.held == nil {
		c.held = map[claimKey]chan struct{}{}
	}
	mine = make(chan struct{})
	c.held[key] = mine
	return mine, nil
}

func (c *claims) release(key claimKey, mine chan struct{}) {
	c.mu.Lock()
	delete(c.held, key)
	c.mu.Unlock()
	close(mine)
}
