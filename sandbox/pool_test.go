package sandbox_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

// A counter is a Launcher that counts launches and the boxes that run, and
// fails while it is told to.
type counter struct {
	sandbox.Launcher
	mu       sync.Mutex
	launched int
	running  int
	broken   error
	streams  []*counted
}

func (c *counter) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	c.mu.Lock()
	broken := c.broken
	c.launched++
	c.mu.Unlock()
	if broken != nil {
		return nil, broken
	}
	stream, err := c.Launcher.Launch(ctx, id, spec)
	if err != nil {
		return nil, err
	}
	s := &counted{ReadWriteCloser: stream, counter: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
	c.streams = append(c.streams, s)
	return s, nil
}

func (c *counter) figures() (launched, running int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.launched, c.running
}

func (c *counter) breakWith(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = err
}

type counted struct {
	io.ReadWriteCloser
	counter *counter
	once    sync.Once
	silent  atomic.Bool // what the agent sends is dropped
}

func (s *counted) Read(p []byte) (int, error) {
	for {
		n, err := s.ReadWriteCloser.Read(p)
		if err != nil || !s.silent.Load() {
			return n, err
		}
	}
}

func (s *counted) Place() sandbox.Place { return s.ReadWriteCloser.(sandbox.Placed).Place() }

func (s *counted) Close() error {
	err := s.ReadWriteCloser.Close()
	s.once.Do(func() {
		s.counter.mu.Lock()
		s.counter.running--
		s.counter.mu.Unlock()
	})
	return err
}

func pooled(t *testing.T, p sandbox.Pool) (*sandbox.Manager, *counter) {
	c := &counter{Launcher: boxtest.Agent(t)}
	m := boxtest.Manager(t, c, sandbox.Spec{Image: "standard"})
	m.Images = []string{"other"}
	m.Pool = p
	return m, c
}

// await waits for what comes by itself.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func start(t *testing.T, m *sandbox.Manager, req sandbox.Request) *sandbox.Box {
	t.Helper()
	box, _, err := m.Start(t.Context(), me, req)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func TestPoolGivesEachSpareBoxToOneOwner(t *testing.T) {
	m, c := pooled(t, sandbox.Pool{Warm: 1})
	if launched, _ := c.figures(); launched != 0 {
		t.Errorf("%d boxes before any client", launched)
	}
	m.Warm(sandbox.Owner{})
	m.Warm(sandbox.Owner{})
	await(t, "the first spare box", func() bool { return m.Stats().Ready == 1 })

	box := start(t, m, sandbox.Request{Name: "mine"})
	if s := m.Stats(); s.Hits != 1 || s.Misses != 0 {
		t.Errorf("%+v: the spare box was not claimed", s)
	}
	if run := begin(t, box, "exit 3"); <-run.Done() != struct{}{} || run.Exit().Code != 3 {
		t.Errorf("%+v", run.Exit())
	}
	await(t, "its successor", func() bool { return m.Stats().Ready == 1 })

	// A request that no spare box fits starts another box, and claims none.
	for _, req := range []sandbox.Request{{Image: "other"}, {Env: map[string]string{"A": "1"}}} {
		start(t, m, req)
		if m.Stats().Ready != 1 {
			t.Errorf("%+v claimed the spare box", req)
		}
	}
	if s := m.Stats(); s.Hits != 1 || s.Misses != 1 {
		t.Errorf("%+v", s)
	}
	if _, _, err := m.Start(t.Context(), you, sandbox.Request{Name: "mine"}); err != nil {
		t.Error(err)
	}
	if _, err := m.Box(you, box.ID); err == nil {
		t.Error("two owners have one spare box")
	}
	m.Close()
	if _, running := c.figures(); running != 0 {
		t.Errorf("%d boxes run after Close", running)
	}
}

// After a burst of starts there are so many spare boxes, for the next one.
func TestPoolGrowsAfterABurst(t *testing.T) {
	m, _ := pooled(t, sandbox.Pool{Warm: 1, Max: 4})
	m.Warm(sandbox.Owner{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { start(t, m, sandbox.Request{}) })
	}
	all.Wait()
	await(t, "as many as were wanted", func() bool { return m.Stats().Ready == 4 })
	before := m.Stats().Hits
	for range 4 {
		start(t, m, sandbox.Request{})
	}
	if hits := m.Stats().Hits - before; hits != 4 {
		t.Errorf("%d of the next 4 found a spare box", hits)
	}
}

// A spare box that ended, or does not answer, is not handed over.
func TestDeadSpareBoxIsReplaced(t *testing.T) {
	m, c := pooled(t, sandbox.Pool{Warm: 1})
	m.Warm(sandbox.Owner{})
	await(t, "the first spare box", func() bool { return m.Stats().Ready == 1 })
	c.streams[0].ReadWriteCloser.Close()
	await(t, "another one", func() bool { launched, _ := c.figures(); return launched == 2 && m.Stats().Ready == 1 })
	box := start(t, m, sandbox.Request{})
	<-begin(t, box, "true").Done()
}

func TestSilentSpareBoxIsNotHandedOver(t *testing.T) {
	m, c := pooled(t, sandbox.Pool{Warm: 1})
	m.Warm(sandbox.Owner{})
	await(t, "the first spare box", func() bool { return m.Stats().Ready == 1 })
	c.streams[0].silent.Store(true)
	box := start(t, m, sandbox.Request{})
	<-begin(t, box, "true").Done()
	if launched, _ := c.figures(); launched < 2 {
		t.Error("the silent box was handed over")
	}
}

// Where no box starts, the pool tries again, less and less often, and works on once one
// does.
func TestPoolRetriesWithoutEngine(t *testing.T) {
	m, c := pooled(t, sandbox.Pool{Warm: 1})
	c.breakWith(errors.New("no engine"))
	m.Warm(sandbox.Owner{})
	await(t, "a second attempt", func() bool { launched, _ := c.figures(); return launched >= 2 })
	if launched, _ := c.figures(); launched > 3 {
		t.Errorf("%d attempts at once", launched)
	}
	c.breakWith(nil)
	await(t, "a spare box", func() bool { return m.Stats().Ready == 1 })
}

// An idle box is stopped, and its owner learns why. A box in which something runs is not
// idle, also where a command only left it behind.
func TestIdleBoxesAreStopped(t *testing.T) {
	m, _ := pooled(t, sandbox.Pool{})
	busy, left := start(t, m, sandbox.Request{}), start(t, m, sandbox.Request{})
	run := begin(t, busy, "sleep 1000")
	<-begin(t, left, "setsid sleep 1001 >/dev/null 2>&1 & exit").Done()
	m.IdleTimeout = 300 * time.Millisecond // from the next box on; those two are busy by now
	idle := start(t, m, sandbox.Request{})
	<-idle.Done()
	if _, err := m.Box(me, idle.ID); err == nil || !strings.Contains(err.Error(), "was stopped: it was idle for 300ms") {
		t.Errorf("%v", err)
	}
	for _, box := range []*sandbox.Box{busy, left} {
		if err := box.Gone(); err != nil {
			t.Error(err)
		}
	}
	run.Kill()
	<-busy.Done()
	if run.Exit().Status != sandbox.Killed || left.Gone() != nil {
		t.Errorf("%+v, %v", run.Exit(), left.Gone())
	}
}

// An owner that is refused a box learns which of its own run; by setting, the one that
// was idle for longest is stopped instead.
func TestTooManyBoxesAreRefusedOrEvictIdleOnes(t *testing.T) {
	m, _ := pooled(t, sandbox.Pool{})
	m.MaxBoxes = 2
	idle := start(t, m, sandbox.Request{Name: "tests"})
	theirs, _, err := m.Start(t.Context(), you, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = m.Start(t.Context(), me, sandbox.Request{})
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.LimitReached ||
		!strings.Contains(e.Text, "2 boxes run, and max_boxes allows no more: "+idle.ID+` "tests" (started `) || !strings.HasSuffix(e.Text, ", 1 of other clients or just starting") {
		t.Errorf("%v", err)
	}
	m.Evict = true
	begin(t, idle, "sleep 1000")
	third := start(t, m, sandbox.Request{})
	if idle.Gone() != nil || theirs.Gone() == nil {
		t.Errorf("the busy box: %v, the idle one: %v", idle.Gone(), theirs.Gone())
	}
	start(t, m, sandbox.Request{})
	if _, err := m.Box(me, third.ID); err == nil || !strings.Contains(err.Error(), "was stopped: a call needed another box, max_boxes is 2") {
		t.Errorf("%v", err)
	}
}

// Concurrent calls for one name get one box.
func TestConcurrentStartsOfANameShareABox(t *testing.T) {
	m, c := pooled(t, sandbox.Pool{})
	var all sync.WaitGroup
	ids := make(chan string, 8)
	for range cap(ids) {
		all.Go(func() { ids <- start(t, m, sandbox.Request{Name: "same"}).ID })
	}
	all.Wait()
	first := <-ids
	for range cap(ids) - 1 {
		if id := <-ids; id != first {
			t.Errorf("%s and %s are both called the same", first, id)
		}
	}
	if launched, _ := c.figures(); launched != 1 {
		t.Errorf("%d were launched", launched)
	}
}

// An owner's default box that has run so many commands is replaced by another.
func TestDefaultBoxIsReplacedAfterItsUses(t *testing.T) {
	m, _ := pooled(t, sandbox.Pool{Uses: 2})
	own := func() *sandbox.Box {
		box, err := m.DefaultBox(t.Context(), me, nil)
		if err != nil {
			t.Fatal(err)
		}
		return box
	}
	first := own()
	hung := begin(t, first, "sleep 1000")
	<-begin(t, own(), "true").Done()
	if own() != first {
		t.Error("a box in which something runs was replaced")
	}
	hung.Kill()
	<-hung.Over()
	await(t, "another one", func() bool { return own() != first })
}
