package enginetest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A process is a process of an engine.
type process struct {
	cmd  *exec.Cmd
	log  string        // a file
	done chan struct{} // closed when it has ended and was reaped
}

// mark names the variable that identifies the processes of an engine: each inherits it,
// and those of containers descend from one that has it.
const mark = "WARMBOX_ENGINETEST"

func (e *Engine) spawn(name string, args ...string) *process {
	e.t.Helper()
	p := &process{cmd: exec.Command(args[0], args[1:]...), log: e.path(name + ".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		e.t.Fatal(err)
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Dir = "/"
	p.cmd.Env = append(os.Environ(), mark+"="+e.Dir, "HOME="+e.path("home"), "XDG_RUNTIME_DIR="+e.path("run"))
	// The engines of a test process that is killed end with it; their containers may
	// not.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	go func() { // ends with the process, which Stop waits for
		defer close(p.done)
		p.cmd.Wait()
	}()
	return p
}

func (p *process) runs() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// tail returns the end of a process's log.
func (p *process) tail() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-2000):])
}

// await waits until a process is ready.
func (e *Engine) await(name string, p *process, ready func() bool) {
	e.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(startTime)
	for !ready() {
		select {
		case <-tick.C:
		case <-p.done:
			e.t.Fatalf("%s has ended: %v\n%s", name, p.cmd.ProcessState, p.tail())
		case <-late:
			e.t.Fatalf("%s does not answer within %v\n%s", name, startTime, p.tail())
		}
	}
}

// Stop ends the engine and its containers, and removes all that it created. It is also
// called at the end of the test.
func (e *Engine) Stop() {
	e.t.Helper()
	if e.stopped {
		return
	}
	e.stopped = true
	for deadline := time.Now().Add(startTime); ; {
		pids := e.processes()
		if len(pids) == 0 {
			break
		}
		if time.Now().After(deadline) {
			e.t.Errorf("processes of the engine are left: %v", pids)
			break
		}
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		<-time.After(10 * time.Millisecond)
	}
	for _, p := range []*process{e.containerd, e.dockerd} {
		if p != nil {
			<-p.done
		}
	}
	if err := e.sweep(); err != nil {
		e.t.Errorf("something of the engine is left: %v", err)
	}
}

// processes returns the processes of the engine, which have its mark, and their
// descendants.
func (e *Engine) processes() (pids []int) {
	parents := make(map[int]int)
	ours := make(map[int]bool)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		state, parent := status(dir)
		if state == "" || state == "Z" {
			continue
		}
		parents[pid] = parent
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		ours[pid] = slices.Contains(strings.Split(string(env), "\x00"), mark+"="+e.Dir)
	}
	for pid := range parents {
		for up := pid; up > 1; up = parents[up] {
			if ours[up] {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// status returns the state of a process or thread and its parent, by its
// directory in /proc.
func status(dir string) (state string, parent int) {
	stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return "", 0
	}
	parent, _ = strconv.Atoi(fields[1])
	return fields[0], parent
}

// Stopped reports whether no thread of a process runs. A busy thread stops some time
// after the signal.
func Stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	return len(threads) > 0 && !slices.ContainsFunc(threads, func(dir string) bool {
		state, _ := status(dir)
		return state != "T"
	})
}

// sweep removes what outlives processes. Mounts do not: they end with the last process
// of their name space.
func (e *Engine) sweep() error {
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		groups, _ := filepath.Glob(pattern + e.group())
		for _, group := range groups {
			if err := removeGroup(group); err != nil {
				return err
			}
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if strings.Contains(string(mounts), e.Dir) {
		return fmt.Errorf("a mount of the engine is in our name space, below %s", e.Dir)
	}
	return os.RemoveAll(e.Dir)
}

// group is the control group of the engine's containers.
func (e *Engine) group() string { return filepath.Base(e.Dir) }

// removeGroup removes a control group and those in it, from the bottom up. Its files
// need not be removed, and cannot.
func removeGroup(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		if err := rmdir(dir); err != nil {
			return err
		}
	}
	return nil
}

// rmdir removes a control group, which is busy for a moment after its last process has
// ended.
func rmdir(dir string) error {
	for deadline := time.Now().Add(5 * time.Second); ; {
		err := syscall.Rmdir(dir)
		if err != syscall.EBUSY || time.Now().After(deadline) {
			return err
		}
		<-time.After(5 * time.Millisecond)
	}
}
