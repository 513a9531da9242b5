package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// A persistentBox is a box that outlives its process: its stream can be detached, and
// a later process reattaches it.
type persistentBox struct{ *box }

// redialTime is what the agent of a detached box may take to connect. It dials about
// once a second.
const redialTime = 5 * time.Second

var (
	_ sandbox.Reattacher = (*Launcher)(nil)
	_ sandbox.Detacher   = persistentBox{}
)

// Detach closes the stream and leaves the box as it is.
func (b persistentBox) Detach() error {
	b.close.Do(func() { b.err = b.detach() })
	return b.err
}

// detach releases what this process needs of a persistent box, and nothing of the box
// itself.
func (b *box) detach() error {
	b.closeStream()
	b.monitor.stop()
	return b.lock.release()
}

// Detached lists the detached boxes on this host. If no lock of a box is free there
// are none, and no engine is asked.
func (l *Launcher) Detached(ctx context.Context) ([]sandbox.Detached, error) {
	if free, err := l.dirs.anyFreeLock(); !free {
		return nil, err
	}
	e, err := l.connector.connect(ctx)
	if err != nil {
		return nil, err
	}
	l.register(e)
	all, err := l.listBoxes(ctx, e)
	if err != nil {
		return nil, l.connector.lost(ctx, e, err)
	}
	var list []sandbox.Detached
	for _, b := range all {
		if b.detached() {
			list = append(list, sandbox.Detached{ID: b.ID, Started: b.Started, Persistent: *b.Persistent})
		}
	}
	return list, nil
}

// anyFreeLock reports whether a lock, of a box on any engine, is free.
func (d dirs) anyFreeLock() (bool, error) {
	dir, err := d.boxesDir("kept")
	if err != nil {
		return false, err
	}
	locks, err := filepath.Glob(filepath.Join(dir, "*", "*"+lockSuffix))
	return slices.ContainsFunc(locks, func(path string) bool { return !held(path) }), err
}

// Knows reports whether a persistent box may still exist, on any engine: its lock is there
// until the box is known to be gone. No engine is asked.
func (l *Launcher) Knows(id string) (bool, error) {
	dir, err := l.dirs.boxesDir("kept")
	if err != nil || !validID.MatchString(id) {
		return false, err
	}
	locks, err := filepath.Glob(filepath.Join(dir, "*", id+lockSuffix))
	return len(locks) > 0, err
}

// Reattach takes over a detached box and returns the stream to it. If that fails it
// leaves the box as it is.
func (l *Launcher) Reattach(ctx context.Context, d sandbox.Detached) (io.ReadWriteCloser, error) {
	b, err := l.withEngine(ctx, func(ctx context.Context, e *engine) (*box, error) { return l.reattach(ctx, e, d.ID) })
	if err != nil {
		return nil, err
	}
	return persistentBox{b}, nil
}

func (l *Launcher) reattach(ctx context.Context, e *engine, id string) (*box, error) {
	info, err := l.findPersistent(ctx, e, id)
	if errors.Is(err, errEnded) {
		return nil, errors.Join(err, l.removeEnded(e, id))
	}
	if err != nil {
		return nil, err
	}
	b := newBox(e, l.logger, id)
	b.container, b.place, b.workspace = info.Container, info.place.Place, info.workspace
	if b.lock, err = l.lockBox(ctx, e, id, *info.Persistent); err != nil {
		return nil, err
	}
	if err = b.monitor.start(ctx, b.container); err == nil {
		err = b.reconnect(ctx, info.place.RelayUser)
	}
	if err != nil {
		return nil, errors.Join(err, b.detach())
	}
	return b, nil
}

// reconnect connects to the agent of a running box, by the transport of its launch.
func (b *box) reconnect(ctx context.Context, relayUser string) (err error) {
	if b.place.Path == relayTransport {
		return b.relay(ctx, relayUser)
	}
	if b.listener, err = b.listen(false); err != nil {
		return err
	}
	return b.acceptAgent(ctx, redialTime)
}

// findPersistent returns a persistent box of this host.
func (l *Launcher) findPersistent(ctx context.Context, e *engine, id string) (BoxInfo, error) {
	all, err := l.listBoxes(ctx, e)
	if err != nil {
		return BoxInfo{}, err
	}
	for _, b := range all {
		if b.ID == id && b.Persistent != nil && b.Running {
			return b, nil
		}
	}
	return BoxInfo{}, sandbox.Errorf(sandbox.BoxGone, "Start another box.", "persistent box %s %w", sanitize(id, maxLabel), errEnded)
}

var errEnded = errors.New("has ended")

// removeEnded removes the lock of a box that has ended, if no process holds it.
func (l *Launcher) removeEnded(e *engine, id string) error {
	dir, err := l.dirs.locksDir(e)
	if err != nil || !validID.MatchString(id) {
		return err
	}
	return l.dirs.removeLock(filepath.Join(dir, id) + lockSuffix)
}

// The bounds of labels. The engine accepts more, but each list of containers has all
// labels of each.
const (
	maxLabel      = 256
	maxPlaceLabel = 64 << 10
)

// A placeLabel is what the container of a persistent box says of it beyond its
// Persistent.
type placeLabel struct {
	sandbox.Place
	RelayUser string
}

// persist labels the container of a persistent box with what a later process must
// know.
func (r *request) persist(p sandbox.Persistent, place sandbox.Place) error {
	for _, text := range []string{p.Name, p.Principal} {
		if text != sanitize(text, maxLabel) {
			return sandbox.Errorf(sandbox.InvalidArgument, "Choose a shorter name, without control characters.",
				"%q cannot be the name of a persistent box: it must have at most %d bytes and no control characters", sanitize(text, maxLabel), maxLabel)
		}
	}
	if r.Host == "" {
		return sandbox.Errorf(sandbox.Internal, "The log says what is wrong with the state directory.", "a box cannot be persistent: without a state directory no later process would find it")
	}
	text, err := json.Marshal(placeLabel{place, r.relayUser()})
	if err != nil {
		return err
	}
	if len(text) > maxPlaceLabel {
		return sandbox.Errorf(sandbox.Internal, "", "a box cannot be persistent: its description has %d bytes, and the limit is %d", len(text), maxPlaceLabel)
	}
	r.Persistent = map[string]string{"keep": p.ReattachTimeout.String(), "name": p.Name, "owner": p.Principal, "place": string(text)}
	return nil
}

// parsePersistent reads the labels that persist wrote, nil where there are none.
func parsePersistent(labels map[string]string) (*sandbox.Persistent, placeLabel) {
	var place placeLabel
	timeout, err := time.ParseDuration(labels[labelPrefix+"keep"])
	if err != nil || json.Unmarshal([]byte(labels[labelPrefix+"place"]), &place) != nil {
		return nil, placeLabel{}
	}
	return &sandbox.Persistent{Name: labels[labelPrefix+"name"], Principal: labels[labelPrefix+"owner"], ReattachTimeout: timeout}, place
}
