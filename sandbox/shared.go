package sandbox

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/warmbox/warmbox/sandbox/policy"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/redact"
)

// shared is what all boxes of a Manager share. A Manager makes it complete before its
// first box; nothing of it is replaced afterwards.
type shared struct {
	once sync.Once // of Manager.share

	logs     *rawlog.Store
	log      *slog.Logger
	secrets  *redact.Redactor // nil knows the well-known forms
	commands policy.Commands  // that may run
	audit    *audit           // may be nil
	allRuns  *limiter         // of the runs of all boxes, nil: they are not limited
	minFree  int64            // see Manager.MinFree

	history  history
	allowed  approvals
	activity activity
}

// activity is what commands have done in all boxes of a Manager.
type activity struct {
	begun atomic.Int64 // commands
	left  atomic.Bool  // processes may go on though their commands have ended
}

func (a *activity) begin() { a.begun.Add(1) }
func (a *activity) goOn()  { a.left.Store(true) }
