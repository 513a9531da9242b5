package tools

import (
	"context"

	"github.com/warmbox/warmbox/sandbox"
)

// Who writes a summary, besides a model.
const (
	byBuiltin = "builtin"
	byNobody  = "none"
)

// summarize gives a result the summary of an output that is too long to be
// shown: a model's, where one is asked and answers, else the built-in one. An
// output that is shown, or still grows, has none.
func (s *Set) summarize(ctx context.Context, run *sandbox.Run, r *ExecResult) {
	r.SummaryBy = byBuiltin
	if s.Terse {
		r.SummaryBy = byNobody
	}
	digest, ok := run.Digest(ctx)
	if !ok {
		return
	}
	r.Summary, r.digested = digest.Summary, true
	s.sample(ctx, digest, r)
	if s.Model == nil {
		return
	}
	text, err := s.Model.Summarize(ctx, digest)
	if err != nil {
		s.logger().Warn("no summary by the model, so it is the built-in one", "exec", r.ExecID, "model", s.Model.Name(), "cause", err)
		return
	}
	r.Summary, r.SummaryBy = text, s.Model.Name()
}
