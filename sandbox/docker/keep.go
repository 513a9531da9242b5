package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/warmbox/warmbox/filelock"
	"github.com/warmbox/warmbox/sandbox"
)

// A claim is a program's hold on a kept box: the lock that says whose it is now,
// and the directory of its socket beside it, which stays for as long as the box
// does. The lock's file tells until when a box waits that nobody has.
type claim struct {
	lock *lock
	dir  string
}

// redialTime is what the agent of a kept box may take to dial. It does about
// once a second.
const redialTime = 5 * time.Second

var (
	_ sandbox.Reattacher = (*Launcher)(nil)
	_ sandbox.Detacher   = keptBox{}
)

// A keptBox can be left to a later program.
type keptBox struct{ *box }

// Detach hangs up and leaves the box as it is.
func (b keptBox) Detach() error {
	b.close.Do(func() { b.err = b.leave() })
	return b.err
}

// leave gives back what this program needs of a kept box, and nothing of the
// box itself.
func (b *box) leave() error {
	b.hangUp()
	b.letGo()
	return errors.Join(b.claim.release(), b.giveName())
}

// take takes a kept box, one that is to be made too, and its name for this program.
// The name is first: who has it is who may want the box.
func (l *Launcher) take(ctx context.Context, b *box, k sandbox.Persistent) (err error) {
	if b.name, err = l.takeName(ctx, b.engine, b.id, k); err != nil {
		return err
	}
	if b.claim, err = l.claim(ctx, b.engine, b.id); err != nil {
		return errors.Join(err, b.giveName())
	}
	return nil
}

// claim takes a kept box for this program.
func (l *Launcher) claim(ctx context.Context, e *engine, id string) (*claim, error) {
	dir, err := l.keptDir(e)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, id)
	lock, err := waitLock(ctx, path+lockSuffix)
	if errors.Is(err, filelock.ErrHeld) {
		return nil, sandbox.Errorf(sandbox.BoxNotFound, "", "box %s belongs to another warmbox that runs: %w", id, err)
	}
	if err != nil {
		return nil, err
	}
	if err := lock.write(""); err != nil {
		lock.release()
		return nil, err
	}
	return &claim{lock, path}, nil
}

const lockSuffix = ".lock"

// keptDir is where the claims to an engine's boxes lie.
func (l *Launcher) keptDir(e *engine) (string, error) {
	return l.ownDir("kept", e.identity())
}

// identity names an engine wherever it listens. Podman says another id each time.
func (e *engine) identity() string {
	id := e.info.ID
	if id == "" || e.podman {
		id = e.endpoint.Host
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}

// release gives the claim up for whoever comes next.
func (c *claim) release() error { return c.lock.release() }

// forfeit gives the claim up for good: a sweep takes the box.
func (c *claim) forfeit() error {
	return errors.Join(c.lock.write(time.Unix(0, 0).Format(time.RFC3339)), c.lock.release())
}

// remove takes away what there is of the claim.
func (c *claim) remove() error {
	return errors.Join(os.RemoveAll(c.dir), c.lock.remove())
}

// What labels may say of a kept box. The engine takes more, but they come with
// every list of containers.
const (
	maxLabel = 256
	maxNote  = 64 << 10
)

// A note is what the container of a kept box says of it beyond its Keep.
type note struct {
	sandbox.Place
	RelayUser string
}

// keep notes on a container what a later program must know.
func (c *request) keep(k sandbox.Persistent, place sandbox.Place) error {
	for _, text := range []string{k.Name, k.Principal} {
		if text != clean(text, maxLabel) {
			return sandbox.Errorf(sandbox.InvalidArgument, "Choose a shorter name, without control characters.", "%q cannot be noted on a box that is kept", clean(text, maxLabel))
		}
	}
	if c.Host == "" {
		return sandbox.Errorf(sandbox.Internal, "The log says what is wrong with the state directory.", "a box cannot be kept, since nobody would find it again")
	}
	text, err := json.Marshal(note{place, c.relayUser()})
	if err != nil {
		return err
	}
	if len(text) > maxNote {
		return sandbox.Errorf(sandbox.Internal, "", "a box cannot be kept that takes %d bytes to describe; %d is the most", len(text), maxNote)
	}
	c.Keep = map[string]string{"keep": k.ReattachTimeout.String(), "name": k.Name, "owner": k.Principal, "place": string(text)}
	return nil
}

// readKeep reads what keep wrote, nil where there is nothing of it.
func readKeep(labels map[string]string) (*sandbox.Persistent, note) {
	var n note
	wait, err := time.ParseDuration(labels[labelPrefix+"keep"])
	if err != nil || json.Unmarshal([]byte(labels[labelPrefix+"place"]), &n) != nil {
		return nil, note{}
	}
	return &sandbox.Persistent{Name: labels[labelPrefix+"name"], Principal: labels[labelPrefix+"owner"], ReattachTimeout: wait}, n
}

// Detached lists the boxes on this host that wait for somebody. Where no claim is free
// none does, and no engine is asked.
func (l *Launcher) Detached(ctx context.Context) ([]sandbox.Detached, error) {
	if free, err := l.freeClaims(); !free {
		return nil, err
	}
	e, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	l.arrive(e)
	all, err := l.boxes(ctx, e)
	if err != nil {
		return nil, l.lost(ctx, e, err)
	}
	var list []sandbox.Detached
	for _, s := range all {
		if s.waits() {
			list = append(list, sandbox.Detached{ID: s.ID, Started: s.Started, Persistent: *s.Persistent})
		}
	}
	return list, nil
}

// freeClaims reports whether there is a claim, to a box of any engine, that nobody
// holds.
func (l *Launcher) freeClaims() (bool, error) {
	dir, err := l.ownDir("kept")
	if err != nil {
		return false, err
	}
	claims, err := filepath.Glob(filepath.Join(dir, "*", "*"+lockSuffix))
	return slices.ContainsFunc(claims, func(path string) bool { return !held(path) }), err
}

// Reattach takes a kept box over and returns the stream to it. Where that cannot
// be done the box is left as it is.
func (l *Launcher) Reattach(ctx context.Context, k sandbox.Detached) (io.ReadWriteCloser, error) {
	e, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	l.arrive(e)
	attended, done := e.attend(ctx)
	defer done()
	b, err := l.redial(attended, e, k.ID)
	if err != nil {
		return nil, l.lost(ctx, e, orSilence(attended, err))
	}
	return keptBox{b}, nil
}

func (l *Launcher) redial(ctx context.Context, e *engine, id string) (*box, error) {
	s, err := l.find(ctx, e, id)
	if errors.Is(err, errEnded) {
		return nil, errors.Join(err, l.bury(e, id))
	}
	if err != nil {
		return nil, err
	}
	b := l.newBox(e, id)
	b.container, b.place, b.workspace = s.Container, s.note.Place, s.workspace
	if err := l.take(ctx, b, *s.Persistent); err != nil {
		return nil, err
	}
	if err = b.watch(ctx); err == nil {
		err = b.again(ctx, s.note.RelayUser)
	}
	if err != nil {
		return nil, errors.Join(err, b.leave())
	}
	return b, nil
}

// again finds the agent of a box that runs, on the path on which it was found
// before.
func (b *box) again(ctx context.Context, relayUser string) (err error) {
	if b.place.Path == pathRelay {
		return b.relay(ctx, relayUser)
	}
	if b.listener, err = b.claim.listen(false); err != nil {
		return err
	}
	return b.meet(ctx, redialTime)
}

// find returns a kept box of this host.
func (l *Launcher) find(ctx context.Context, e *engine, id string) (BoxInfo, error) {
	all, err := l.boxes(ctx, e)
	if err != nil {
		return BoxInfo{}, err
	}
	for _, s := range all {
		if s.ID == id && s.Persistent != nil && s.Running {
			return s, nil
		}
	}
	return BoxInfo{}, sandbox.Errorf(sandbox.BoxGone, "Start another one.", "box %s, which was kept, %w", clean(id, maxLabel), errEnded)
}

var errEnded = errors.New("has ended")

// bury takes away the claim to a box that has ended, if it was ours.
func (l *Launcher) bury(e *engine, id string) error {
	dir, err := l.keptDir(e)
	if err != nil || !validID.MatchString(id) {
		return err
	}
	return l.removeClaim(filepath.Join(dir, id) + lockSuffix)
}
