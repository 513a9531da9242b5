package docker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// DefaultImage is the image of boxes where neither the configuration nor a call
// names one. It is built on the user's machine and never pulled: anybody could
// publish an image of this name.
const DefaultImage = "warmbox/sandbox:slim"

// Config says how to reach an engine and where to keep files. Its zero value
// searches for an engine.
type Config struct {
	Host           string   // the engine, e.g. "unix:///var/run/docker.sock"; "" searches for one
	DefaultImage   string   // "" is DefaultImage
	Runtime        string   // an OCI runtime that the engine knows, such as "runsc"; "" is the engine's default
	OwnIDs         bool     // Podman gives each box user ids of its own; other engines cannot, and are refused
	SeccompProfile string   // a file that replaces our profile; EngineSeccomp uses the engine's own
	StateDir       string   // workspaces of boxes without a named one, and records of boxes; "" is warmbox in the user's state directory
	CacheDir       string   // agents and facts about images; "" is warmbox in the user's cache directory
	Transport      string   // "socket" or "relay"; "" is the one that works
	Writable       []string // directories of the host that boxes can write, which other processes of this user must know
	Logger         *slog.Logger
}

// A Launcher starts boxes on one engine. It dials nothing before the first launch,
// and searches for an engine again after its engine has stopped answering.
type Launcher struct {
	config     Config
	logger     *slog.Logger
	dirs       dirs
	notes      *noteLog
	connector  *connector
	cleanups   *cleanups
	instance   *instance
	images     *factsCache
	agents     *agentCache
	transports *transports

	noSysctls sync.Map // engines, by address, that refuse the sysctls of a box
	noInodes  sync.Map // engines, by address, that refuse nr_inodes of a tmpfs
}

// launchGrace bounds what a launch may still do after its caller has canceled it:
// learn what was created, and undo it.
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
	d := dirs{state: config.StateDir, cache: config.CacheDir, logger: config.Logger}
	cleanups := newCleanups()
	return &Launcher{
		config:     config,
		logger:     config.Logger,
		dirs:       d,
		notes:      &noteLog{logger: config.Logger},
		connector:  &connector{host: config.Host, logger: config.Logger, cleanups: cleanups},
		cleanups:   cleanups,
		instance:   newInstance(d, config.Writable),
		images:     newFactsCache(d),
		agents:     newAgentCache(),
		transports: newTransports(d, config.Transport),
	}
}

// Isolates reports that boxes isolate their commands from the host.
func (l *Launcher) Isolates() bool { return true }

// validID is the form of a box's id, which becomes part of paths.
var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Launch starts a box.
func (l *Launcher) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	if !validID.MatchString(id) {
		return nil, sandbox.Errorf(sandbox.Internal, "", "box id %q is invalid: it must match %s", id, validID)
	}
	b, err := l.withEngine(ctx, func(ctx context.Context, e *engine) (*box, error) { return l.launch(ctx, e, id, spec) })
	if err != nil {
		return nil, err
	}
	if spec.Persistent != nil {
		return persistentBox{b}, nil
	}
	return b, nil
}

// withEngine calls do with the engine, after register, and with a context that ends if
// the engine hangs.
func (l *Launcher) withEngine(ctx context.Context, do func(context.Context, *engine) (*box, error)) (*box, error) {
	e, err := l.connector.connect(ctx)
	if err != nil {
		return nil, err
	}
	l.register(e)
	watched, stop := e.watchdog(ctx)
	defer stop()
	b, err := do(watched, e)
	if err != nil {
		return nil, l.connector.lost(ctx, e, orHangs(watched, err))
	}
	return b, nil
}

// launch starts a box by the transport that works. If the socket fails, a relay is
// tried, and if that cannot mount our directories, a relay without them.
func (l *Launcher) launch(ctx context.Context, e *engine, id string, spec sandbox.Spec) (*box, error) {
	p, err := l.plan(ctx, e, id, spec)
	if err != nil {
		return nil, err
	}
	defer p.closeFiles()
	transport, only := l.transports.choose(e)
	if transport == socketTransport {
		b, err := l.startCovered(ctx, e, p, spec)
		if err == nil {
			l.transports.remember(e, socketTransport)
			return b, nil
		}
		if only || ctx.Err() != nil || !e.answered(err) || errors.Is(err, errMoved) {
			return nil, p.undo(err)
		}
		l.logger.Debug("socket of the box does not work, trying a relay", "box", id, "engine", e.endpoint.Host, "err", err)
	}
	b, err := l.start(ctx, e, p, relayTransport)
	if notVisible(err) && p.withoutHost() {
		b, err = l.start(ctx, e, p, relayTransport)
	}
	if err != nil {
		return nil, p.undo(explainNotVisible(err, p))
	}
	if transport == socketTransport {
		l.logger.Info("engine does not share its file system with this process, boxes are reached by a relay", "engine", e.endpoint.Host)
		l.transports.remember(e, relayTransport)
	}
	return b, nil
}

// start creates the container of a plan, starts it and waits for the stream. If the
// engine refuses a limit that not every engine knows, start repeats it without that
// limit. After an error nothing of the box exists.
func (l *Launcher) start(ctx context.Context, e *engine, p *plan, transport string) (*box, error) {
	for {
		b, err := l.startOnce(ctx, e, p, transport)
		if ctx.Err() != nil || !l.omitRefused(e, p, err) {
			return b, err
		}
	}
}

// omitRefused removes the limit that an engine refused from a plan, and reports whether
// there was one.
func (l *Launcher) omitRefused(e *engine, p *plan, err error) bool {
	r := &p.request
	switch {
	case r.Sysctls && refusesSysctls(err):
		l.noSysctls.Store(e.endpoint.Host, true)
		r.Sysctls = false
		p.notes = l.notes.add(p.notes, noteSysctls)
	case r.Inodes && refusesInodes(err):
		l.noInodes.Store(e.endpoint.Host, true)
		r.Inodes = false
		p.notes = l.notes.add(p.notes, noteInodes)
	default:
		return false
	}
	return true
}

func (l *Launcher) startOnce(ctx context.Context, e *engine, p *plan, transport string) (_ *box, err error) {
	b := newBox(e, l.logger, p.id)
	defer func() {
		if err != nil {
			b.abort(ctx)
		}
	}()
	r, err := l.prepare(ctx, e, p, transport, b)
	if err != nil {
		return nil, err
	}
	warnings, err := b.create(ctx, r)
	for _, w := range warnings {
		b.place.Notes = l.notes.add(b.place.Notes, "The engine says: "+sanitize(w, 300))
	}
	if err != nil {
		return nil, err
	}
	if err := b.run(ctx); err != nil {
		return nil, err
	}
	if transport == socketTransport {
		err = b.acceptAgent(ctx, firstDial)
	} else {
		err = b.relay(ctx, r.relayUser())
	}
	if err != nil {
		return nil, err
	}
	b.workspace = p.workspace
	return b, nil
}

// prepare completes the request of a plan for a transport, and sets up in b what the
// container needs on the host: its agent, its locks and its socket.
func (l *Launcher) prepare(ctx context.Context, e *engine, p *plan, transport string, b *box) (request, error) {
	r := p.request
	r.Transport = transport
	agent, err := l.agent(ctx, e, p.facts, transport)
	if err != nil {
		return r, err
	}
	r.Agent = agent
	if len(r.Covers) > 0 && (transport == relayTransport || !verifiable()) {
		r.Covers = nil
		p.notes = l.notes.add(p.notes, noteUnprotected)
	}
	if p.persistent != nil {
		if b.lock, err = l.lockBox(ctx, e, p.id, *p.persistent); err != nil {
			return r, err
		}
	}
	if transport == socketTransport {
		if b.listener, err = b.listen(true); err != nil {
			return r, err
		}
		r.SocketDir = b.listener.dir
		b.covers = r.Covers
	}
	b.place = l.describe(p, r)
	if p.persistent != nil {
		err = r.persist(*p.persistent, b.place)
	}
	return r, err
}

// Close ends the background work of the launcher and unregisters it. The caller has
// closed the launcher's streams before.
func (l *Launcher) Close() error {
	l.instance.stopSweep()
	l.cleanups.close()
	l.connector.close()
	return l.instance.unregister()
}
