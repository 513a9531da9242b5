//go:build linux

package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
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

// Agent serves one host.
type Agent struct {
	shell    shell
	names    names        // named shells
	null     uintptr      // /dev/null, the input of runs that have none
	initial  map[int]bool // children that we had before we started any
	oomKills int          // that the box had when last we looked; the reaper's own

	stream io.ReadWriter
	dir    string
	env    []string

	wmu sync.Mutex // held for one frame's write

	// mu also keeps the reaper and the scans of the process table from a child
	// that is started but not yet noted.
	mu    sync.Mutex
	runs  map[wire.ID]*run // all that are not over
	pids  map[int]*run     // by their shell's pid, until it is reaped
	trees []*tree          // of all runs that have a process left

	orphans sync.Cond // a process has ended that some run left behind
}

func newAgent() (*Agent, error) {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	a := &Agent{shell: findShell(), null: uintptr(null), runs: map[wire.ID]*run{}, pids: map[int]*run{}, initial: map[int]bool{}}
	a.orphans.L = &a.mu
	for _, pid := range children() {
		a.initial[pid] = true
	}
	a.oomKills = oomKills()
	go a.reap(childSignals())
	return a, nil
}

// serve speaks with the host until the stream ends, then ends everything.
func (a *Agent) serve(stream io.ReadWriter) error {
	a.stream = stream
	r := wire.NewReader(stream, wire.FromHost)
	lease, err := a.greet(r)
	if err != nil {
		return err
	}
	alive := make(chan struct{}, 1)
	if lease > 0 {
		go a.watchLease(lease, alive)
	}
	if !initProcess() {
		go a.endOnSignal()
	}
	err = a.read(r, alive)
	a.endAll()
	if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	return err
}

// greet waits for the host's Hello and answers it.
func (a *Agent) greet(r *wire.Reader) (lease time.Duration, err error) {
	f, err := r.Read()
	if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
		return 0, errNoHello
	}
	if err == nil && f.Kind != wire.Hello {
		err = wire.Violation("%v before Hello", f.Kind)
	}
	var hello wire.HelloBody
	if err == nil {
		err = wire.Decode(f, &hello)
	}
	if err != nil {
		return 0, fmt.Errorf("greet the host: %w", err)
	}
	a.dir, a.env = hello.Dir, append([]string{defaultPath}, hello.Env...)
	if a.dir == "" {
		a.dir, _ = os.Getwd()
	}
	a.makeTempDirs()
	return time.Duration(hello.LeaseMillis) * time.Millisecond,
		a.sendJSON(wire.Hello, wire.ID{}, wire.HelloBody{Agent: "warmbox", Pid: os.Getpid(), Shell: a.shell.path})
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
func (a *Agent) watchLease(lease time.Duration, alive <-chan struct{}) {
	timer := time.NewTimer(lease)
	for {
		select {
		case <-alive:
			timer.Reset(lease)
		case <-timer.C:
			a.endAll()
			os.Exit(1)
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
		if err := a.carryOut(f); err != nil {
			return err
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
	_, err := a.stream.Write(frame)
	return err
}

func (a *Agent) sendJSON(kind wire.Kind, run wire.ID, body any) error {
	frame, err := wire.AppendJSON(nil, kind, run, body)
	if err != nil {
		return err
	}
	return a.send(frame)
}
