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

// defaultPath is the PATH of commands if the host sets none.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// errNoHello means that the stream ended before the host's Hello.
var errNoHello = errors.New("the host closed the stream before its Hello")

// Agent serves one host, or one after the other if the box is persistent.
type Agent struct {
	shell   shell
	domains domains
	names   names   // named shells
	null    uintptr // /dev/null, the input of runs without one
	memory  memoryEvents

	hosts       hostSource
	persistence *persistence // nil if the box ends with its host
	dir         string       // where runs start; like env and spares, guarded by the lock of procs
	env         []string     // the variables of all runs

	out      outbox
	procs    *processes
	spares   spares
	programs *programs
	shims    shims
}

// newAgent returns an agent that serves hosts. It reaps children from now on.
func newAgent(hosts hostSource) (*Agent, error) {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	initialLimits()
	a := &Agent{
		shell: findShell(), domains: findDomains(), null: uintptr(null),
		procs: newProcesses(), hosts: hosts,
	}
	a.programs = newPrograms(a.sendPrograms)
	for _, pid := range a.children() {
		a.procs.initial[pid] = true
	}
	if initProcess() { // otherwise the control group is not the box's alone
		a.memory.open(cgroupRoot)
	}
	go a.reap(childSignals())
	return a, nil
}

// serve serves hosts until the last stream has ended, then ends everything.
func (a *Agent) serve() error {
	if !initProcess() {
		go a.endOnSignal()
	}
	defer a.endAll()
	for {
		stream, err := a.hosts.next()
		if err != nil {
			return err
		}
		err = a.serveHost(stream)
		stream.Close()
		switch {
		case errors.Is(err, wire.ErrViolation):
			return err
		case a.persistence != nil:
			a.persistence.detach()
			a.endHosted()
		case errors.Is(err, errNoHello):
		case err == io.EOF || errors.Is(err, syscall.ECONNRESET):
			return nil
		default:
			return err
		}
	}
}

// serveHost serves one host until its stream ends.
func (a *Agent) serveHost(stream io.ReadWriteCloser) error {
	r := wire.NewReader(stream, wire.FromHost)
	hello, err := a.handshake(r, stream)
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

// handshake reads the host's Hello and answers it.
func (a *Agent) handshake(r *wire.Reader, stream io.ReadWriteCloser) (hello wire.HelloBody, err error) {
	if a.persistence != nil {
		defer time.AfterFunc(helloTimeout, func() { stream.Close() }).Stop()
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
		return hello, fmt.Errorf("read the host's Hello: %w", err)
	}
	a.applyHello(hello)
	a.makeTempDirs()
	ours := a.answerHello(hello)
	if err := a.setShims(hello.Shims); errors.Is(err, wire.ErrViolation) {
		return hello, err
	} else if err != nil {
		ours.NoShims = int(errnoOf(err).(unix.Errno))
	}
	if err := a.replyHello(hello, ours, stream); err != nil {
		return hello, err
	}
	a.setSpares(hello.Spares)
	return hello, nil
}

// applyHello sets the directory and environment of all runs from a Hello.
func (a *Agent) applyHello(hello wire.HelloBody) {
	dir, env := hello.Dir, append([]string{defaultPath}, hello.Env...)
	if hello.Resume { // this host does not know the variables that the box was started with
		env = lastOfEach(slices.Concat(a.env, env))
	}
	if dir == "" {
		dir, _ = os.Getwd()
	}
	a.procs.do(func() { a.dir, a.env = dir, env })
}

// answerHello returns what the agent's Hello says of the box.
func (a *Agent) answerHello(hello wire.HelloBody) wire.HelloBody {
	return wire.HelloBody{Agent: "warmbox", Pid: os.Getpid(), Shell: a.shell.path, Found: findPrograms(hello.Programs, a.env), Audited: a.auditPrograms(hello)}
}

// replyHello answers a Hello.
func (a *Agent) replyHello(hello, ours wire.HelloBody, stream io.ReadWriteCloser) error {
	persistent := hello.PersistMillis > 0
	a.hosts.setPersistent(persistent)
	if persistent || a.persistence != nil {
		return a.replyPersistent(hello, ours, stream)
	}
	a.out.attach(stream)
	return a.out.sendJSON(wire.Hello, wire.ID{}, ours)
}

// findPrograms returns those of the programs that the PATH in env has, by the last PATH in it.
func findPrograms(programs, env []string) (found []string) {
	var dirs []string
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			dirs = filepath.SplitList(path)
		}
	}
	for _, name := range programs[:min(len(programs), wire.MaxPrograms)] {
		if slices.ContainsFunc(dirs, func(dir string) bool { return filepath.IsAbs(dir) && isProgram(filepath.Join(dir, name)) }) {
			found = append(found, name)
		}
	}
	return found
}

// isProgram reports whether a file can be executed.
func isProgram(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && unix.Access(path, unix.X_OK) == nil
}

// makeTempDirs creates the directories that TMPDIR and similar variables name: a new home
// directory has none yet.
func (a *Agent) makeTempDirs() {
	for _, v := range a.env {
		name, dir, _ := strings.Cut(v, "=")
		if strings.HasSuffix(name, "TMPDIR") && filepath.IsAbs(dir) {
			os.MkdirAll(dir, 0o700) // on failure, the command that needs it reports it
		}
	}
}

// watchLease closes the stream when the host has been silent for the lease.
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
			if a.persistence == nil {
				a.endAll()
				os.Exit(1)
			}
			stream.Close()
			return
		}
	}
}

// endOnSignal ends an agent that is an ordinary process on SIGTERM, SIGINT and SIGHUP.
func (a *Agent) endOnSignal() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	<-c
	a.endAll()
	os.Exit(1)
}

// read carries out the host's frames. It never waits for a command.
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
		if err != nil && (a.persistence == nil || errors.Is(err, wire.ErrViolation)) {
			return err // in a persistent box, carry out all that a lost host has sent
		}
	}
}

func (a *Agent) carryOut(f wire.Frame) error {
	switch f.Kind {
	case wire.Start:
		return a.start(f)
	case wire.Ping:
		return a.out.send(wire.Append(nil, wire.Pong, f.Run, f.Payload))
	case wire.Hello:
		return wire.Violation("a second %v", f.Kind)
	case wire.Resume, wire.Forget:
		return a.reattach(f)
	case wire.Look:
		return a.reportFiles(f)
	}
	r := a.procs.run(f.Run)
	if r == nil {
		return nil // the run has just ended
	}
	switch f.Kind {
	case wire.Stdin:
		return r.stdin.accept(f.Payload)
	case wire.OutputTaken:
		return r.taken(f)
	case wire.StdinClose:
		if r.tty {
			return wire.Violation("%v for a run with a terminal", f.Kind)
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
