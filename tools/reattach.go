package tools

import (
	"context"
	"errors"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// reattachWait is how long a call waits until the server has reattached to persistent boxes,
// which takes an engine less than a second.
const reattachWait = 3 * time.Second

// whenReattached calls find when the server has reattached to the owner's persistent boxes, or
// after reattachWait. Before that the id of such a box is unknown, and commands in it seem lost.
func (s *Set) whenReattached(ctx context.Context, owner sandbox.Owner, find func() error) error {
	reattached := s.Manager.AwaitReattach(ctx, owner, reattachWait)
	err := find()
	if reattached || !isUnknown(err) {
		return err
	}
	return sandbox.Errorf(FailureOf(err).Code, "Try again in a few seconds.",
		"%w, unless the server has yet to reattach to it: it still looks for persistent containers", err)
}

// findReattached is whenReattached for an id that find may know without waiting.
func (s *Set) findReattached(ctx context.Context, owner sandbox.Owner, find func() error) error {
	if err := find(); !isUnknown(err) {
		return err
	}
	return s.whenReattached(ctx, owner, find)
}

// isUnknown reports whether an error says that there is no such box or command.
func isUnknown(err error) bool {
	e, ok := errors.AsType[*sandbox.Error](err)
	return ok && (e.Code == sandbox.BoxNotFound || e.Code == sandbox.ExecNotFound)
}
