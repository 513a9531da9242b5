// Package docker starts boxes as containers of a Docker Engine, or of Podman
// through the same API.
//
// It finds an engine, puts the agent into any image without asking anything of
// it, starts a hardened container with the agent as PID 1, and hands back the
// byte stream to it. It does not decide which images may run, speaks no word of
// the protocol on that stream, and never builds a container from anything but
// its own request: nothing that an image or a client says reaches the engine.
//
// The caller must have checked the image and the workspace against its policy,
// must close every stream that Launch returned, and the Launcher after the last.
package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/userdir"
)

// DefaultImage is what boxes are made from unless somebody says otherwise. It
// is built on the user's machine and never pulled: the name on a public
// registry could be anybody's.
const DefaultImage = "warmbox/sandbox:slim"

// Config says how to reach an engine and what to keep where. Its zero value
// finds the engine by itself.
type Config struct {
	Host           string   // the engine, e.g. "unix:///var/run/docker.sock"; "" looks for one
	DefaultImage   string   // "" is DefaultImage
	Runtime        string   // one of the engine's by its name, such as "runsc"; "" is the engine's default
	OwnIDs         bool     // Podman gives each box user ids of its own; another engine cannot, and is refused
	SeccompProfile string   // a file that replaces our profile; EngineSeccomp keeps the engine's own
	StateDir       string   // workspaces of boxes that were given none; "" is warmbox in the user's state directory
	CacheDir       string   // agents and what was learnt about images; "" is warmbox in the user's cache directory
	Transport      string   // "socket" or "relay" instead of what works
	Writable       []string // what of the host boxes can write, for other programs of this user to know
	Logger         *slog.Logger
}

// A Launcher starts boxes on one engine. It dials nothing before the first
// launch, and looks for an engine again when the one it had stops answering.
type Launcher struct {
	config   Config
	logger   *slog.Logger
	instance string // marks the containers of this launcher
	started  time.Time

	mu      sync.Mutex
	engine  *engine // nil until one answered
	silence silence // why there may be none
	agents  map[string]agent
	images  map[string]facts  // by the image's id
	paths   map[string]string // by the engine's key; "" is not known
	said    map[string]bool   // notes that were said already

	noSysctls map[string]bool // engines, by address, that refuse those of a box

	errands *errands // for engines that hang

	looks sync.Mutex // held while an image is looked into or an agent is installed

	alive *lock  // says that this launcher lives; nil before the first launch
	host  string // marks the containers of this host; "" as long

	arriving  sync.Mutex // guards what follows
	arrived   *engine    // the last one that was swept
	stopSweep context.CancelFunc
	sweeps    sync.WaitGroup
}

// The ways a stream comes about.
const (
	pathSocket = "socket" // the box's own, on a file system that both sides see
	pathRelay  = "relay"  // an exec of the engine that joins stdio to the agent
)

// launchGrace bounds what is done for a launch after its caller gave up:
// hearing what was made, and taking it back.
const launchGrace = 15 * time.Second

var (
	_ sandbox.Launcher = (*Launcher)(nil)
	_ sandbox.Isolator = (*Launcher)(nil)
)

// New returns a Launcher.
func New(config Config) *Launcher {
	if config.DefaultImage == "" {
		config.DefaultImage = DefaultImage
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Launcher{
		config:    config,
		logger:    config.Logger,
		instance:  rand.Text(),
		started:   time.Now(),
		agents:    make(map[string]agent),
		images:    make(map[string]facts),
		paths:     make(map[string]string),
		said:      make(map[string]bool),
		noSysctls: make(map[string]bool),
		errands:   newErrands(),
	}
}

// Isolates reports that boxes keep their commands away from the host.
func (l *Launcher) Isolates() bool { return true }

// validID is what a box may be called: its id becomes part of a path.
var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Launch starts a box.
func (l *Launcher) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	if !validID.MatchString(id) {
		return nil, sandbox.Errorf(sandbox.Internal, "", "%q cannot be the id of a box", id)
	}
	e, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	l.arrive(e)
	attended, done := e.attend(ctx)
	defer done()
	b, err := l.launch(attended, e, id, spec)
	if err != nil {
		return nil, l.lost(ctx, e, orSilence(attended, err))
	}
	if spec.Persistent != nil {
		return keptBox{b}, nil
	}
	return b, nil
}

func (l *Launcher) launch(ctx context.Context, e *engine, id string, spec sandbox.Spec) (*box, error) {
	p, err := l.plan(ctx, e, id, spec)
	if err != nil {
		return nil, err
	}
	defer p.letGo()
	path, sure := l.path(e)
	if path == pathSocket {
		b, err := l.startCovered(ctx, e, p, spec)
		if err == nil {
			l.rememberPath(e, pathSocket)
			return b, nil
		}
		if sure || ctx.Err() != nil || !e.answers(err) || errors.Is(err, errMoved) {
			return nil, p.abandon(err)
		}
		l.logger.Debug("box's own socket does not work, trying a relay", "box", id, "engine", e.endpoint.Host, "err", err)
	}
	b, err := l.start(ctx, e, p, pathRelay)
	if unseen(err) && p.withoutHost() {
		b, err = l.start(ctx, e, p, pathRelay)
	}
	if err != nil {
		return nil, p.abandon(blind(err, p))
	}
	if path == pathSocket {
		l.logger.Info("engine does not share its file system with this process, boxes are reached by a relay", "engine", e.endpoint.Host)
		l.rememberPath(e, pathRelay)
	}
	return b, nil
}

// errNoDial says that the agent did not come to the box's socket in time.
var errNoDial = errors.New("the agent did not dial the box's socket")

func (l *Launcher) newBox(e *engine, id string) *box {
	return &box{engine: e, logger: l.logger, id: id, stderr: new(sandbox.LastLines), ended: make(chan struct{})}
}

// start makes the container of a plan, starts it and waits for the stream. Where the
// engine refuses the settings of System V IPC, it does so without them. On an error
// nothing of it is left.
func (l *Launcher) start(ctx context.Context, e *engine, p *plan, path string) (*box, error) {
	b, err := l.startOnce(ctx, e, p, path)
	if !p.request.Sysctls || !refusesSysctls(err) || ctx.Err() != nil {
		return b, err
	}
	l.mu.Lock()
	l.noSysctls[e.endpoint.Host] = true
	l.mu.Unlock()
	p.request.Sysctls = false
	p.notes = l.note(p.notes, noteSysctls)
	return l.startOnce(ctx, e, p, path)
}

// setsSysctls reports whether the engine has not refused them yet.
func (l *Launcher) setsSysctls(e *engine) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.noSysctls[e.endpoint.Host]
}

func (l *Launcher) startOnce(ctx context.Context, e *engine, p *plan, path string) (_ *box, err error) {
	b := l.newBox(e, p.id)
	defer func() {
		if err != nil {
			b.abandon(ctx)
		}
	}()
	c, err := l.prepare(ctx, e, p, path, b)
	if err != nil {
		return nil, err
	}
	warnings, err := b.create(ctx, c)
	for _, w := range warnings {
		b.place.Notes = l.note(b.place.Notes, "The engine says: "+clean(w, 300))
	}
	if err != nil {
		return nil, err
	}
	if err := b.run(ctx); err != nil {
		return nil, err
	}
	if path == pathSocket {
		err = b.meet(ctx, firstDial)
	} else {
		err = b.relay(ctx, c.relayUser())
	}
	if err != nil {
		return nil, err
	}
	b.workspace = p.workspace
	return b, nil
}

// prepare makes what a container on a path needs beside it, and its request.
func (l *Launcher) prepare(ctx context.Context, e *engine, p *plan, path string, b *box) (request, error) {
	c := p.request
	c.Path = path
	agent, err := l.agent(ctx, e, p.facts, path)
	if err != nil {
		return c, err
	}
	c.Agent = agent
	if len(c.Covers) > 0 && (path == pathRelay || !verifiable()) {
		c.Covers = nil
		p.notes = l.note(p.notes, noteUnprotected)
	}
	if p.keep != nil {
		if err := l.take(ctx, b, *p.keep); err != nil {
			return c, err
		}
	}
	if path == pathSocket {
		if b.listener, err = b.claim.listen(true); err != nil {
			return c, err
		}
		c.SocketDir = b.listener.dir
		b.covers = c.Covers
	}
	b.place = l.where(p, c)
	if p.keep != nil {
		err = c.keep(*p.keep, b.place)
	}
	return c, err
}

// note adds a sentence to notes if this launcher has not said it before.
func (l *Launcher) note(notes []string, sentence string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said[sentence] {
		return notes
	}
	l.said[sentence] = true
	l.logger.Warn("box is not quite as asked for", "note", sentence)
	return append(notes, sentence)
}

// stateDir returns where workspaces live.
func (l *Launcher) stateDir() (string, error) {
	if l.config.StateDir != "" {
		return filepath.Abs(l.config.StateDir)
	}
	dir, err := userdir.State()
	if err != nil {
		return "", fmt.Errorf("no place for workspaces: %w", err)
	}
	return dir, nil
}
