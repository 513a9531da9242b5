//go:build linux

package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// defaultPath is where commands find programs where the host does not say.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// errNoHello says that the stream ended before its host spoke.
var errNoHello = errors.New("the host hung up before its first word")

// Agent serves one host, or where its box is kept, one after the other.
type Agent struct {
	shell   shell
	domains domains
	names   names        // named shells
	null    uintptr      // /dev/null, the input of runs that have none
	initial map[int]bool // children that we had before we started any
	memory  memoryEvents

	hosts  hosts
	keeper *keeper // nil where a box ends with its host
	dir    string
	env    []string

	wmu    sync.Mutex // held for one frame's write; guards what follows
	stream io.Writer
	held   []byte // frames that go with the next one

	// mu also keeps the reaper and the scans of the process table from a child
	// that is started but not yet noted.
	mu    sync.Mutex
	runs  map[wire.ID]*run // all that are not over
	begun int              // how many have a shell, or had one
	pids  map[int]*run     // by their shell's pid, until it is reaped
	trees []*tree          // of all runs that have a process left
	dead  map[int]uint64   // start by pid of the zombies of the last look

	forkers map[int]bool // threads of ours that have started a process
	forker  int          // the one that did last

	spares spares

	orphans sync.Cond // a process has ended that some run left behind
}

func newAgent() (*Agent, error) {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	initialLimits()
	a := &Agent{
		shell: findShell(), domains: findDomains(), null: uintptr(null),
		runs: map[wire.ID]*run{}, pids: map[int]*run{}, initial: map[int]bool{}, forkers: map[int]bool{},
	}
	a.orphans.L = &a.mu
	for _, pid := range a.children() {
		a.initial[pid] = true
	}
	if initProcess() { // else there is no group that is ours
		a.memory.open(cgroupRoot)
	}
	go a.reap(childSignals())
	return a, nil
}

// serve speaks with hosts until the last one's stream has ended, then ends
// everything.
func (a *Agent) serve(hosts hosts) error {
	a.hosts = hosts
	if !initProcess() {
		go a.endOnSignal()
	}
	defer a.endAll()
	for {
		stream, err := hosts.next()
		if err != nil {
			return err
		}
		err = a.attend(stream)
		stream.Close()
		switch {
		case errors.Is(err, wire.ErrViolation):
			return err
		case a.keeper != nil:
			a.keeper.detach()
		case errors.Is(err, errNoHello):
		case err == io.EOF || errors.Is(err, syscall.ECONNRESET):
			return nil
		default:
			return err
		}
	}
}

// attend speaks with one host until its stream ends.
func (a *Agent) attend(stream io.ReadWriteCloser) error {
	r := wire.NewReader(stream, wire.FromHost)
	hello, err := a.greet(r, stream)
	if err != nil {
		return err
	}
	alive := make(chan struct{}, 1)
	if lease := time.Duration(hello.LeaseMillis) * time.Millisecond; lease > 0 {
		over := make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() { a.watchLease(stream, lease, alive, over) })
		defer watch.Wait()
		defer close(over)
	}
	return a.read(r, alive)
}

// greet waits for the host's Hello and answers it.
func (a *Agent) greet(r *wire.Reader, stream io.ReadWriteCloser) (hello wire.HelloBody, err error) {
	if a.keeper != nil {
		defer time.AfterFunc(greetPatience, func() { stream.Close() }).Stop()
	}
	f, err := r.Read()
	if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
		return hello, errNoHello
	}
	if err == nil && f.Kind != wire.Hello {
		err = wire.Violation("%v before Hello", f.Kind)
	}
	if err == nil {
		err = wire.Decode(f, &hello)
	}
	if err != nil {
		return hello, fmt.Errorf("greet the host: %w", err)
	}
	a.settleIn(hello)
	a.makeTempDirs()
	if err := a.answer(hello, stream); err != nil {
		return hello, err
	}
	a.renewSpares(hello.Spares)
	return hello, nil
}

// settleIn takes from a Hello what holds for all runs.
func (a *Agent) settleIn(hello wire.HelloBody) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.env
	a.dir, a.env = hello.Dir, append([]string{defaultPath}, hello.Env...)
	if hello.Resume { // that host does not know with what variables the box was started
		a.env = latest(slices.Concat(before, a.env))
	}
	if a.dir == "" {
		a.dir, _ = os.Getwd()
	}
}

// answer answers a Hello.
func (a *Agent) answer(hello wire.HelloBody, stream io.ReadWriteCloser) error {
	ours := wire.HelloBody{Agent: "warmbox", Pid: os.Getpid(), Shell: a.shell.path}
	kept := hello.KeepMillis > 0
	a.hosts.keep(kept)
	if kept || a.keeper != nil {
		return a.welcome(hello, ours, stream)
	}
	a.speakTo(stream)
	return a.sendJSON(wire.Hello, wire.ID{}, ours)
}

func (a *Agent) speakTo(stream io.Writer) {
	a.wmu.Lock()
	defer a.wmu.Unlock()
	a.stream = stream
}

// makeTempDirs makes the directories that TMPDIR and its like name: in a new
// home there is none yet.
func (a *Agent) makeTempDirs() {
	for _, v := range a.env {
		name, dir, _ := strings.Cut(v, "=")
		if strings.HasSuffix(name, "TMPDIR") && filepath.IsAbs(dir) {
			os.MkdirAll(dir, 0o700) // where it fails the command that wants it says so
		}
	}
}

// watchLease gives the host up when it has been silent for the lease.
func (a *Agent) watchLease(stream io.Closer, lease time.Duration, alive, over <-chan struct{}) {
	timer := time.NewTimer(lease)
	defer timer.Stop()
	for {
		select {
		case <-over:
			return
		case <-alive:
			timer.Reset(lease)
		case <-timer.C:
			if a.keeper == nil {
				a.endAll()
				os.Exit(1)
			}
			stream.Close()
			return
		}
	}
}

// endOnSignal lets an agent that is an ordinary process be ended like one.
func (a *Agent) endOnSignal() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	<-c
	a.endAll()
	os.Exit(1)
}

// read carries out what the host asks. Nothing in it waits for a command.
func (a *Agent) read(r *wire.Reader, alive chan<- struct{}) error {
	for {
		f, err := r.Read()
		if err != nil {
			return err
		}
		select {
		case alive <- struct{}{}:
		default:
		}
		err = a.carryOut(f)
		if err != nil && (a.keeper == nil || errors.Is(err, wire.ErrViolation)) {
			return err // what a host that went wished before counts where it is not the last
		}
	}
}

func (a *Agent) carryOut(f wire.Frame) error {
	switch f.Kind {
	case wire.Start:
		return a.start(f)
	case wire.Ping:
		return a.send(wire.Append(nil, wire.Pong, f.Run, f.Payload))
	case wire.Hello:
		return wire.Violation("a second Hello")
	case wire.Resume, wire.Forget:
		return a.settleKept(f)
	case wire.Look:
		return a.sayFiles(f)
	}
	a.mu.Lock()
	r := a.runs[f.Run]
	a.mu.Unlock()
	if r == nil {
		return nil // it has just ended
	}
	switch f.Kind {
	case wire.Stdin:
		return r.stdin.take(f.Payload)
	case wire.StdinClose:
		if r.tty {
			return wire.Violation("%v for a terminal", f.Kind)
		}
		r.stdin.end()
	case wire.Signal:
		var body wire.SignalBody
		if err := wire.Decode(f, &body); err != nil {
			return err
		}
		return r.signal(body)
	case wire.Resize:
		var body wire.Size
		if err := wire.Decode(f, &body); err != nil {
			return err
		}
		return r.resize(body)
	case wire.Kill:
		var body wire.KillBody
		if err := wire.Decode(f, &body); err != nil {
			return err
		}
		a.kill(r, time.Duration(body.GraceMillis)*time.Millisecond)
	}
	return nil
}

// send writes one frame. An error means that the host is gone, which the read
// loop learns too.
func (a *Agent) send(frame []byte) error {
	a.wmu.Lock()
	defer a.wmu.Unlock()
	if len(a.held) > 0 {
		frame = append(a.held, frame...)
		a.held = a.held[:0]
	}
	_, err := a.stream.Write(frame)
	return err
}

// hold keeps a frame for the next one to take along, or for letGo: each write
// wakes the host, which then has a processor that the command could use.
func (a *Agent) hold(frame []byte) {
	a.wmu.Lock()
	defer a.wmu.Unlock()
	a.held = append(a.held, frame...)
}

// letGo sends what is held.
func (a *Agent) letGo() {
	a.wmu.Lock()
	defer a.wmu.Unlock()
	if len(a.held) > 0 {
		a.stream.Write(a.held) // an error the read loop learns too
		a.held = a.held[:0]
	}
}

func (a *Agent) sendJSON(kind wire.Kind, run wire.ID, body any) error {
	frame, err := wire.AppendJSON(nil, kind, run, body)
	if err != nil {
		return err
	}
	return a.send(frame)
}
