package tools

import (
	"context"

	"github.com/warmbox/warmbox/sandbox"
)

// The authors of summaries besides models.
const (
	byBuiltin = "builtin"
	byNone    = "none"
)

// summarize sets the summary of an output that is too long to be shown: that of a model, if one
// is configured and answers, else the built-in one. An output that is shown whole or still
// grows has none.
func (s *Set) summarize(ctx context.Context, run *sandbox.Run, r *ExecResult) {
	r.author = byBuiltin
	if s.Terse {
		r.author = byNone
	}
	digest, ok := run.Digest(ctx)
	if !ok {
		return
	}
	r.Summary, r.digested = digest.Summary, true
	if want := run.Command.Want; want != "" && len(digest.Wanted) == 0 {
		r.hint("No line has a word of want.")
	}
	s.sample(ctx, digest, r)
	if s.Model == nil {
		return
	}
	text, err := s.Model.Summarize(ctx, digest)
	if err != nil {
		s.logger().Warn("no summary by the model; using the built-in one", "exec", r.ExecID, "model", s.Model.Name(), "cause", err)
		return
	}
	r.summarizedBy(s.Model.Name(), text)
}

// summarizedBy replaces the summary by that of a model.
func (r *ExecResult) summarizedBy(model, text string) {
	r.Summary, r.SummaryBy, r.author = text, model, model
}
