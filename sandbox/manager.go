// Package sandbox runs commands in warm boxes: places that already stand, each
// with an agent of ours in it, so that a command answers as fast as in a local
// shell.
//
// A backend, the Launcher, starts an agent somewhere and yields a byte stream to
// it; all else is here, once, above that seam: boxes and who owns them, runs and
// how they end, their output, their logs. The package knows no backend, no MCP
// and no configuration file.
//
// Whatever comes from a box is hostile: bounded before it is stored, and never
// taken for words of ours.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

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
	Pool            Pool             // what stands ready
	IdleTimeout     time.Duration    // after which a box that nobody uses is stopped; 0: never
	ReattachTimeout time.Duration    // how long a kept box waits for a server; 0: DefaultReattachTimeout
	Evict           bool             // where MaxBoxes stand and one more is wanted, the one that was idle for longest is stopped
	Logger          *slog.Logger
	Audit           *slog.Logger // told of each box and command, for the record; nil: nobody is

	PrincipalNames map[string]string // of principals, by which the record names them; set before anybody calls

	mu        sync.Mutex
	boxes     map[string]*tenancy        // by box id
	gone      []departed                 // the last ones, so that a late question is answered
	own       map[Owner]*Box             // by owner, what it gets without asking
	claims    map[claimKey]chan struct{} // what somebody is at; closed when it is done
	pool      *pool                      // nil until there is a client
	idleTimer *time.Timer                // nil until there is a box that may be idle for too long
	met       map[string]chan struct{}   // principals of which there was a client; closed when what they kept is back
	starting  int
	closed    bool
	life      context.Context    // of those who tend; nil until there is something to
	end       context.CancelFunc // of life
	pending   sync.WaitGroup     // launches under way, boxes that stand, and who tends
	history   history
	allowed   approvals
	late      []lateNews // of boxes that have ended
	deeds     deeds
	runs      *gate // of all boxes, nil until the first box is wanted
}

type tenancy struct {
	box   *Box
	owner Owner
}

type departed struct {
	id    string
	owner Owner
	why   error
}

var errClosed = errors.New("the server is shutting down")

// Request says how a box shall differ from the defaults.
type Request struct {
	Image      string
	Name       string // asking again for a name gives the same box
	Env        map[string]string
	Persistent bool // it outlives this program
	Progress   func(string)
}

// Start starts a box for an owner, or returns the one of that name that it has.
func (m *Manager) Start(ctx context.Context, owner Owner, req Request) (box *Box, reused bool, err error) {
	if err := checkEnv(req.Env, MaxBoxEnv); err != nil {
		return nil, false, err
	}
	if req.Name != "" {
		release, err := m.claim(ctx, claimKey{owner.all(), req.Name})
		if err != nil {
			return nil, false, err
		}
		defer release()
	}
	if box := m.named(owner, req.Name); box != nil {
		if req.Persistent && box.ReattachTimeout() <= 0 {
			err := notKept(req.Name)
			m.newAudit().started(owner, req, nil, err)
			return nil, false, err
		}
		return box, true, nil
	}
	spec, err := m.spec(req)
	if err == nil {
		spec.Persistent, err = m.keep(owner, req)
	}
	if err != nil {
		m.newAudit().started(owner, req, nil, err)
		return nil, false, err
	}
	if box, err := m.back(ctx, owner, req.Name); box != nil || err != nil {
		return box, box != nil, err
	}
	if err := m.reserve(owner); err != nil {
		return nil, false, err
	}
	defer m.pending.Done()
	if box = m.takeWarm(ctx, req); box == nil {
		box, err = m.launch(ctx, spec)
	}
	if err = m.adopt(box, owner, req, spec, err); err != nil {
		return nil, false, err
	}
	box.audit.started(owner, req, box, nil)
	return box, false, nil
}

// A claimKey names what one caller at a time does: it starts the box of that name, the
// owner's default box where there is none.
type claimKey struct {
	owner Owner
	name  string
}

// claim lets one caller at a time do something of that key: a burst of calls
// for one box starts one.
func (m *Manager) claim(ctx context.Context, key claimKey) (release func(), err error) {
	for {
		m.mu.Lock()
		before := m.claims[key]
		if before == nil {
			done := make(chan struct{})
			if m.claims == nil {
				m.claims = map[claimKey]chan struct{}{}
			}
			m.claims[key] = done
			m.mu.Unlock()
			return func() {
				m.mu.Lock()
				delete(m.claims, key)
				m.mu.Unlock()
				close(done)
			}, nil
		}
		m.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// adopt gives a box that was started to its owner, in the place that was
// reserved for it, or gives the place back where err says that it was not.
func (m *Manager) adopt(box *Box, owner Owner, req Request, spec Spec, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starting--
	if err == nil && m.closed {
		err = errClosed
		m.pending.Go(box.Close)
	}
	if err != nil {
		return err
	}
	if spec.Persistent != nil {
		owner = owner.all()
	}
	if m.pool != nil {
		m.pool.forgive() // what starts for somebody starts for the pool too
	}
	box.Name, box.owner = req.Name, owner
	m.furnish(box, spec)
	m.enter(box)
	return nil
}

// furnish gives a box what all boxes of the Manager share.
func (m *Manager) furnish(b *Box, spec Spec) {
	b.history, b.secrets, b.common = &m.history, m.Secrets, m.runs
	b.deeds = &m.deeds
	b.commands, b.allowed, b.audit = m.Commands, &m.allowed, m.newAudit()
	b.disk = newDiskWatch(b, m.MinFree, fillable(spec, b.Place))
}

// enter takes a box down as one that stands. The caller holds m.mu.
func (m *Manager) enter(b *Box) {
	if m.boxes == nil {
		m.boxes = map[string]*tenancy{}
	}
	m.boxes[b.ID] = &tenancy{b, b.owner}
	m.awaitIdle()
	m.pending.Go(func() { m.watch(b, b.owner) })
}

// named returns the box of a name: of two, the one that is kept.
func (m *Manager) named(owner Owner, name string) (box *Box) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.boxes {
		if name != "" && owner.reaches(t.owner) && t.box.Name == name && t.box.Gone() == nil && (box == nil || t.box.ReattachTimeout() > 0) {
			box = t.box
		}
	}
	return box
}

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
	return "", Errorf(ImageDenied, "Use one of these, leave image out, or have the owner add it to [images] allow.",
		"image %q is not on the list of allowed images: %s", wanted, strings.Join(list, ", "))
}

// denial makes of a command's the error that its caller can act on.
func denial(err error) error {
	if d, ok := errors.AsType[*policy.Denial](err); ok {
		return Errorf(ExecValidation, d.Accept, "%w", d)
	}
	return err
}

// reserve takes one of the places for a box.
func (m *Manager) reserve(owner Owner) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed
	}
	if m.standing() >= m.maxBoxes() && !m.evict() {
		return m.full(owner)
	}
	m.starting++
	m.pending.Add(1)
	m.prepare()
	return nil
}

// prepare sees to what all boxes share. The caller holds m.mu.
func (m *Manager) prepare() {
	if m.runs == nil {
		m.runs = crowdGate(cmp.Or(max(0, m.MaxRuns), DefaultMaxRuns))
		m.tend(m.Logs.Tend)
	}
}

func (m *Manager) maxBoxes() int { return cmp.Or(max(0, m.MaxBoxes), DefaultMaxBoxes) }

// tend has something looked after until Close. The caller holds m.mu.
func (m *Manager) tend(f func(context.Context)) {
	if m.life == nil {
		m.life, m.end = context.WithCancel(context.Background())
	}
	ctx := m.life
	m.pending.Go(func() { f(ctx) })
}

func (m *Manager) launch(ctx context.Context, spec Spec) (*Box, error) {
	id := NewID("b")
	stream, err := m.Launcher.Launch(ctx, id, spec)
	if err != nil {
		return nil, fmt.Errorf("start a box: %w", err)
	}
	box, err := openBox(ctx, id, stream, spec, m.Logs, m.logger())
	if told, ok := errors.AsType[*Error](err); ok {
		return nil, told
	}
	if err != nil {
		return nil, Errorf(BoxGone, "Try again.", "%w", err)
	}
	m.logger().InfoContext(ctx, "box started", "box", id, "image", box.Place.Image, "path", box.Place.Path, "notes", box.Place.Notes)
	return box, nil
}

// watch forgets a box when it is gone, unless that comes back.
func (m *Manager) watch(box *Box, owner Owner) {
	<-box.Done()
	why, left := box.Gone(), box.detached()
	if box.unreached() != nil {
		if why = m.reach(m.life, box); why == nil {
			return
		}
		m.history.lose(box.ID, why)
		left = m.life.Err() != nil // to a later program, as this one ends
	}
	if !left {
		box.audit.stopped(box)
	}
	m.forget(box, owner, why)
}

// forget remembers of a box only why it is gone.
func (m *Manager) forget(box *Box, owner Owner, why error) {
	news := box.Changes(0)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inherit(owner, news)
	if t := m.boxes[box.ID]; t != nil && t.box == box {
		delete(m.boxes, box.ID)
	}
	m.gone = slices.DeleteFunc(m.gone, func(d departed) bool { return d.id == box.ID })
	const remember = 256
	m.gone = append(m.gone, departed{box.ID, owner, why})
	if len(m.gone) > remember {
		m.gone = slices.Delete(m.gone, 0, len(m.gone)-remember)
	}
}

// Box returns a box that the owner has.
func (m *Manager) Box(owner Owner, id string) (*Box, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.boxes[id]; t != nil && owner.reaches(t.owner) {
		if err := t.box.Gone(); err != nil {
			return nil, err
		}
		t.box.touch()
		return t.box, nil
	}
	for _, d := range m.gone {
		if d.id == id && owner.reaches(d.owner) {
			return nil, d.why
		}
	}
	return nil, Errorf(BoxNotFound, "Use the id that start or exec returned, or leave containerId out.", "there is no box %q", id)
}

// DefaultBox returns the box that an owner gets without asking for one, and starts it
// where it does not stand.
func (m *Manager) DefaultBox(ctx context.Context, owner Owner, progress func(string)) (*Box, error) {
	if box := m.ownBox(owner); box != nil {
		return box, nil
	}
	release, err := m.claim(ctx, claimKey{owner: owner})
	if err != nil {
		return nil, err
	}
	defer release()
	if box := m.ownBox(owner); box != nil {
		return box, nil // of a call that came before
	}
	box, _, err := m.Start(ctx, owner, Request{Progress: progress})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.own == nil {
		m.own = map[Owner]*Box{}
	}
	m.own[owner] = box
	return box, nil
}

// ownBox returns it where it stands and is not used up.
func (m *Manager) ownBox(owner Owner) *Box {
	m.mu.Lock()
	box := m.own[owner]
	m.mu.Unlock()
	if box == nil || box.Gone() != nil {
		return nil
	}
	if m.Pool.Uses > 0 && box.usedUp(m.Pool.Uses) {
		m.retire(box, fmt.Errorf("it ran %d commands, after which a new one takes its place", m.Pool.Uses))
		return nil
	}
	return box
}

// Boxes returns what an owner has, the oldest first.
func (m *Manager) Boxes(owner Owner) []*Box {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*Box
	for _, t := range m.boxes {
		if owner.reaches(t.owner) {
			list = append(list, t.box)
		}
	}
	slices.SortFunc(list, func(a, b *Box) int { return a.Started.Compare(b.Started) })
	return list
}

// Stop ends a box that the owner has, with everything in it.
func (m *Manager) Stop(owner Owner, id string) error {
	box, err := m.Box(owner, id)
	if err != nil {
		return err
	}
	box.Close()
	return box.unreached() // it may come back: nobody could be told
}

// Release ends all that an owner has but the boxes that are kept.
func (m *Manager) Release(owner Owner) {
	m.mu.Lock()
	delete(m.own, owner)
	m.mu.Unlock()
	closeAll(slices.DeleteFunc(m.Boxes(owner), func(b *Box) bool { return b.keepFor > 0 }))
	m.history.forget(owner)
	m.allowed.forget(owner)
}

// Close ends every box and returns when they are gone, those too that are just
// being launched. Boxes that are kept it leaves as they are. Nothing can be started
// afterwards.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	if m.idleTimer != nil {
		m.idleTimer.Stop()
	}
	if m.end != nil {
		m.end()
	}
	var list []*Box
	for _, t := range m.boxes {
		list = append(list, t.box)
	}
	if m.pool != nil {
		for _, w := range m.pool.ready {
			list = append(list, w.Box)
		}
		m.pool.ready = nil
	}
	m.mu.Unlock()
	m.leaveAll(list)
	m.pending.Wait()
}

func closeAll(list []*Box) {
	var wg sync.WaitGroup
	for _, b := range list {
		wg.Go(b.Close)
	}
	wg.Wait()
}

// leaveAll closes boxes, and leaves those that are kept to a later program.
func (m *Manager) leaveAll(list []*Box) {
	var wg sync.WaitGroup
	for _, b := range list {
		wg.Go(func() {
			if b.keepFor <= 0 {
				b.Close()
			} else if err := b.Detach(); err != nil {
				m.logger().Warn("a kept box may not come back", "box", b.ID, "err", err)
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
