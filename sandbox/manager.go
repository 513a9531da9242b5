// Package sandbox runs commands in warm boxes: places that already run, each
// with an agent of ours in it, so that a command answers as fast as in a local
// shell.
//
// A backend, the Launcher, starts an agent somewhere and yields a byte stream to
// it; all else is here, once, above that seam: boxes and who owns them, runs and
// how they end, their output, their logs. The package knows no backend, no MCP
// and no configuration file.
//
// Whatever comes from a box is hostile: bounded before it is stored, and never
// mistaken for text of the host.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/hostcode"
	"github.com/warmbox/warmbox/sandbox/policy"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/redact"
)

// DefaultMaxBoxes is how many boxes a Manager holds where nothing else is said:
// with the default memory limit, what a well-equipped workstation can bear.
const DefaultMaxBoxes = 16

// A Manager starts boxes, knows whose they are, and ends them. It is used like
// http.Server: set its fields, then call. It owns every box that it started
// until Close.
type Manager struct {
	Launcher        Launcher
	Logs            *rawlog.Store
	Defaults        Spec             // of every box; its image is always allowed
	Images          []string         // globs of what other images are, see policy.Image
	Commands        policy.Commands  // what may run; its zero value lets everything run
	MaxBoxes        int              // at once; 0 is DefaultMaxBoxes
	MaxRuns         int              // at once, in all boxes; 0 is DefaultMaxRuns
	MinFree         int64            // bytes of a disk that commands leave to others, and a file for each 16 KB of them, at most a twentieth of either; 0: they may fill it
	Secrets         *redact.Redactor // what the output of runs never shows; nil knows the well-known forms
	Pool            Pool             // of spare boxes
	IdleTimeout     time.Duration    // after which an idle box is stopped; 0: never
	ReattachTimeout time.Duration    // how long a persistent box waits for a server; 0: DefaultReattachTimeout
	Evict           bool             // where MaxBoxes run and one more is wanted, the one that was idle for longest is stopped, also of a client that is there
	Grace           time.Duration    // how long a client may be silent before its idle boxes make room for other principals; 0: DefaultGrace
	Logger          *slog.Logger
	Audit           *slog.Logger // receives a record of each box and command; nil: none is made

	// InUse reports whether an owner's client has an open request, or sent one within a
	// time. It must not block or call the Manager. Nil: clients are known by their calls
	// for boxes alone. Set before any other call.
	InUse func(owner Owner, within time.Duration) bool

	PrincipalNames map[string]string // of principals, as the audit record names them; set before any other call

	shared // what each box has a pointer to
	boxes  boxes
	pool   pool
	tasks  tasks // launches under way, watches of boxes, the pool, reattaching
}

// Request says how a box shall differ from the defaults.
type Request struct {
	Image      string
	Name       string // asking again for a name gives the same box
	Env        map[string]string
	Persistent bool // it outlives this program
	Progress   func(string)
}

// Start starts a box for an owner, or returns the one of that name that it has. It
// reattaches to a detached box of that name; to other ones only after Warm.
func (m *Manager) Start(ctx context.Context, owner Owner, req Request) (box *Box, reused bool, err error) {
	if err := checkEnv(req.Env, MaxBoxEnv); err != nil {
		return nil, false, m.refused(owner, req, err)
	}
	if req.Name != "" {
		release, err := m.boxes.claims.acquire(ctx, claimKey{owner.all(), req.Name})
		if err != nil {
			return nil, false, err
		}
		defer release()
	}
	if box, _ := m.boxes.named(owner, req.Name); box != nil {
		if req.Persistent && box.ReattachTimeout() <= 0 {
			return nil, false, m.refused(owner, req, notPersistent(req.Name))
		}
		return box, true, nil
	}
	spec, err := m.spec(req)
	if err == nil {
		spec.Persistent, err = m.persistence(owner, req)
	}
	if err != nil {
		return nil, false, m.refused(owner, req, err)
	}
	if box, err := m.reattachNamed(ctx, owner, req.Name); box != nil || err != nil {
		return box, box != nil, err
	}
	if box, err = m.start(ctx, owner, req, spec); err != nil {
		return nil, false, err
	}
	box.audit.started(owner, req, box, nil)
	return box, false, nil
}

// refused records a box that may not start.
func (m *Manager) refused(owner Owner, req Request, err error) error {
	m.share().audit.started(owner, req, nil, err)
	return err
}

// start gives an owner a spare box, or a new one.
func (m *Manager) start(ctx context.Context, owner Owner, req Request, spec Spec) (*Box, error) {
	done, ok := m.tasks.begin()
	if !ok {
		return nil, errClosed
	}
	defer done()
	if err := m.boxes.reserve(owner, m.maxBoxes(), eviction{cmp.Or(m.Grace, DefaultGrace), m.Evict, m.InUse}); err != nil {
		return nil, err
	}
	m.tendLogs()
	if spec.Persistent != nil {
		owner = owner.all()
	}
	box := m.claimSpare(ctx, req)
	spare := box != nil
	if spare {
		box.assign(req.Name, owner)
	} else {
		var err error
		if box, err = m.launch(ctx, spec, req.Name, owner); err != nil {
			m.boxes.cancel()
			return nil, err
		}
	}
	if err := m.boxes.fill(box); err != nil {
		m.tasks.fork(box.end)
		return nil, err
	}
	if !spare { // which started earlier, and says nothing about now
		m.pool.started()
	}
	m.watch(box)
	return box, nil
}

// share makes what all boxes share, once.
func (m *Manager) share() *shared {
	s := &m.shared
	s.once.Do(func() {
		s.logs, s.log, s.secrets, s.commands = m.Logs, m.logger(), m.Secrets, m.Commands
		s.audit, s.minFree = m.newAudit(), m.MinFree
		s.allRuns = newLimiter(cmp.Or(max(0, m.MaxRuns), DefaultMaxRuns))
	})
	return s
}

// tendLogs deletes old logs in the background, from the first box of a client on.
func (m *Manager) tendLogs() { m.tasks.runOnce(taskKey{what: "logs"}, m.Logs.Tend) }

// spec lays a request over the defaults and checks what it may ask for.
func (m *Manager) spec(req Request) (Spec, error) {
	spec := m.Defaults
	var err error
	if spec.Image, err = m.image(req.Image); err != nil {
		return spec, err
	}
	if err := denial(m.Commands.CheckEnv(req.Env)); err != nil {
		return spec, err
	}
	spec.Env = maps.Clone(m.Defaults.Env)
	if spec.Env == nil {
		spec.Env = map[string]string{}
	}
	maps.Copy(spec.Env, req.Env)
	spec.Progress = req.Progress
	return spec, nil
}

// image returns the name by which to find the image that is asked for, or the
// default one. A list that pins it says what it is, whatever its tag has come to
// mean.
func (m *Manager) image(ref string) (string, error) {
	wanted := cmp.Or(ref, m.Defaults.Image)
	name, allowed := policy.Pin(m.Images, wanted)
	switch {
	case allowed:
		return name, nil
	case wanted == m.Defaults.Image:
		return wanted, nil
	}
	list := append([]string{m.Defaults.Image}, m.Images...)
	return "", Errorf(ImageDenied, "Use one of the listed images, leave image out, or have the owner add the image to [images] allow.",
		"image %q is not on the list of allowed images: %s", wanted, strings.Join(list, ", "))
}

// denial makes of a rule's refusal the error that its caller can act on.
func denial(err error) error {
	if d, ok := errors.AsType[*policy.Denial](err); ok {
		return Errorf(ExecValidation, d.Accept, "%w", d)
	}
	return err
}

func (m *Manager) maxBoxes() int { return cmp.Or(max(0, m.MaxBoxes), DefaultMaxBoxes) }

// launch starts a box. A spare box has no owner yet.
func (m *Manager) launch(ctx context.Context, spec Spec, name string, owner Owner) (*Box, error) {
	id := NewID("b")
	stream, err := m.Launcher.Launch(ctx, id, spec)
	if err != nil && ctx.Err() != nil {
		return nil, Errorf(BoxGone, "Call again to start another one.", "the call ended while its box started: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("start a box: %w", err)
	}
	box, err := openBox(ctx, m.share(), identity{id, name, owner, time.Now()}, stream, spec)
	if told, ok := errors.AsType[*Error](err); ok {
		return nil, told
	}
	if err != nil {
		return nil, Errorf(BoxGone, "Try again.", "%w", err)
	}
	m.logger().InfoContext(ctx, "box started", "box", id, "image", box.Place.Image, "path", box.Place.Path, "notes", box.Place.Notes)
	return box, nil
}

// Warm is called when a client of an owner is there. It starts the pool, and reattaches to
// the persistent boxes of the owner's principal; it waits for neither. Calling it again
// costs next to nothing.
func (m *Manager) Warm(owner Owner) {
	m.reattachOnce(owner)
	if m.Pool.Warm > 0 {
		m.pool.open(m.Pool, poolHost{
			image: m.Defaults.Image, tasks: &m.tasks, log: m.logger(), start: m.launchSpare,
			room: func() int { return m.boxes.room(m.maxBoxes()) },
		})
	}
}

// launchSpare starts a box for the pool.
func (m *Manager) launchSpare(ctx context.Context, image string) (*spareBox, error) {
	spec, err := m.spec(Request{Image: image})
	if err != nil {
		return nil, err
	}
	spare := &spareBox{image: image, begun: m.begun(), claimed: make(chan struct{})}
	if spec.Workspace != "" {
		spare.workspace, _ = os.Stat(spec.Workspace) // where it is not there no box starts
		paths, _ := Protected(spec.Protect)
		spare.before = lstat(spec.Workspace, paths)
	}
	spare.Box, err = m.launch(ctx, spec, "", Owner{})
	return spare, err
}

// begun returns how many commands have begun, or unsettled while one of them, or a process
// that it left behind, may still run.
func (m *Manager) begun() int64 {
	n := m.activity.begun.Load()
	if m.boxes.busy() || m.activity.left.Load() {
		return unsettled
	}
	return n
}

// claimSpare returns a spare box that is as it would be if it started now, or nil.
func (m *Manager) claimSpare(ctx context.Context, req Request) *Box {
	if len(req.Env) > 0 || req.Persistent {
		return nil // no spare box was made so
	}
	scan := sync.OnceValue(func() hostcode.Found { return ScanWorkspace(m.Defaults.Workspace, m.Defaults.Protect) })
	return m.pool.claim(cmp.Or(req.Image, m.Defaults.Image), func(s *spareBox) bool {
		return s.hasWorkspace(m.Defaults.Workspace) && s.protects(scan) && s.conn.Answers(ctx, pingTimeout)
	})
}

// watch forgets a box when it is gone, unless the server reattaches to it. A task is
// under way.
func (m *Manager) watch(box *Box) {
	m.boxes.stopIdle(m.idleLimit)
	m.tasks.fork(func(ctx context.Context) {
		<-box.Done()
		why, left := box.Gone(), box.detached()
		if box.conn.unreachable() != nil {
			if why = m.reachAgain(ctx, box); why == nil {
				return
			}
			m.history.lose(box.ID, why)
			left = ctx.Err() != nil // to a later program, as this one ends
		}
		if !left {
			box.audit.stopped(box)
		}
		m.boxes.forget(box, why, box.Changes(0))
	})
}

// idleLimit is how long a box may be idle. A persistent one may be as long as it waits
// for a server.
func (m *Manager) idleLimit(b *Box) time.Duration {
	if m.IdleTimeout > 0 && b.reattachTimeout > 0 {
		return max(m.IdleTimeout, m.reattachTimeout())
	}
	return m.IdleTimeout
}

// Stats says what a Manager has at the moment, and how often there was a spare box for
// a call that wanted one.
type Stats struct {
	Boxes, Busy  int // that have an owner; those of them in which something runs
	Starting     int
	Ready        int // spare boxes
	Hits, Misses int64

	Runs    int              // that are not over
	Ended   map[Status]int64 // how many are, by how they ended
	Printed int64            // bytes, by all
}

// Stats returns the figures.
func (m *Manager) Stats() (s Stats) {
	s.Runs, s.Ended, s.Printed = m.history.figures()
	var filling int
	s.Boxes, s.Busy, s.Starting = m.boxes.figures()
	s.Ready, filling, s.Hits, s.Misses = m.pool.figures()
	s.Starting += filling
	return s
}

// Box returns a box that the owner has.
func (m *Manager) Box(owner Owner, id string) (*Box, error) { return m.boxes.find(owner, id) }

// DefaultBox returns the box that an owner gets without asking for one, and starts it
// where there is none.
func (m *Manager) DefaultBox(ctx context.Context, owner Owner, progress func(string)) (*Box, error) {
	if box := m.usableDefault(owner); box != nil {
		return box, nil
	}
	release, err := m.boxes.claims.acquire(ctx, claimKey{owner: owner})
	if err != nil {
		return nil, err
	}
	defer release()
	if box := m.usableDefault(owner); box != nil {
		return box, nil // of a call that came before
	}
	box, _, err := m.Start(ctx, owner, Request{Progress: progress})
	if err != nil {
		return nil, err
	}
	m.boxes.setDefault(owner, box)
	return box, nil
}

// ClaimReplaced returns why an owner's default box was replaced by another one since the
// last call, nil if it was not or the owner stopped it. What was in it is lost.
func (m *Manager) ClaimReplaced(owner Owner) error { return m.boxes.claimReplaced(owner) }

// ClaimEnded returns why an owner's last box of a name is gone, once: nil if there was none, or if
// the owner stopped it.
func (m *Manager) ClaimEnded(owner Owner, name string) error { return m.boxes.claimEnded(owner, name) }

// usableDefault returns it where it runs and has not run too many commands.
func (m *Manager) usableDefault(owner Owner) *Box {
	box := m.boxes.defaultOf(owner)
	if box == nil {
		return nil
	}
	if m.Pool.Uses > 0 && box.usedUp(m.Pool.Uses) {
		box.retire(fmt.Errorf("it ran %d commands, and pool.max_uses replaces it after that many", m.Pool.Uses))
		return nil
	}
	return box
}

// Boxes returns what an owner has, the oldest first.
func (m *Manager) Boxes(owner Owner) []*Box { return m.boxes.list(owner) }

// Changes returns the changes in the workspaces of all boxes of an owner that were not
// reported yet, also of boxes that have ended. It waits at most so long for scans that
// are due.
func (m *Manager) Changes(owner Owner, wait time.Duration) Changes {
	all := m.boxes.claimLate(owner)
	boxes := m.Boxes(owner)
	list := make([]Changes, len(boxes))
	var wg sync.WaitGroup
	for i, b := range boxes {
		wg.Go(func() { list[i] = b.Changes(wait) })
	}
	wg.Wait()
	for _, c := range list {
		all.add(c)
	}
	return all
}

// Stop ends a box that the owner has, with everything in it.
func (m *Manager) Stop(owner Owner, id string) error {
	box, err := m.Box(owner, id)
	if err != nil {
		return err
	}
	box.Close()
	return box.conn.unreachable() // its agent could not be reached, and the box may run on
}

// Release ends all that an owner has but its persistent boxes.
func (m *Manager) Release(owner Owner) {
	m.boxes.setDefault(owner, nil)
	closeAll(slices.DeleteFunc(m.Boxes(owner), func(b *Box) bool { return b.reattachTimeout > 0 }))
	m.history.forget(owner)
	m.allowed.forget(owner)
}

// Close ends every box and returns when they are gone, those too that are just
// being launched. Persistent boxes it detaches from. Nothing can be started
// afterwards.
func (m *Manager) Close() {
	m.tasks.close()
	m.detachAll(append(m.boxes.close(), m.pool.close()...))
	m.tasks.wait()
}

func closeAll(list []*Box) {
	var wg sync.WaitGroup
	for _, b := range list {
		wg.Go(b.Close)
	}
	wg.Wait()
}

// detachAll closes boxes, and leaves the persistent ones to a later program.
func (m *Manager) detachAll(list []*Box) {
	var wg sync.WaitGroup
	for _, b := range list {
		wg.Go(func() {
			if b.reattachTimeout <= 0 {
				b.Close()
			} else if err := b.Detach(); err != nil {
				m.logger().Warn("a persistent box may be lost", "box", b.ID, "err", err)
			}
		})
	}
	wg.Wait()
}

func (m *Manager) logger() *slog.Logger {
	if m.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return m.Logger
}
