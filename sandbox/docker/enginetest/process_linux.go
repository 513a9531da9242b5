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

// A process is one that an engine is made of.
type process struct {
	cmd  *exec.Cmd
	log  string        // a file
	done chan struct{} // closed when it has ended and was waited for
}

// mark names the variable that tells the processes of an engine: each inherits
// it, and containers' own descend from one that did.
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
	// A test program that is killed takes its engines with it, if not their
	// containers.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	go func() { // ends with the process, whose end Stop waits for
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

// tail returns the end of what a process has logged.
func (p *process) tail() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-2000):])
}

// await waits for what a process does once it is ready.
func (e *Engine) await(name string, p *process, ready func() bool) {
	e.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !ready() {
		select {
		case <-tick.C:
		case <-p.done:
			e.t.Fatalf("%s has ended: %v\n%s", name, p.cmd.ProcessState, p.tail())
		case <-late:
			e.t.Fatalf("%s does not answer within %v\n%s", name, patience, p.tail())
		}
	}
}

// Stop ends the engine and its containers, and takes away all that it made. The
// end of the test calls it too.
func (e *Engine) Stop() {
	e.t.Helper()
	if e.stopped {
		return
	}
	e.stopped = true
	for deadline := time.Now().Add(patience); ; {
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

// processes returns the engine's and those of its containers. The engine's are
// told by their mark, and what descends from them is theirs.
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

// Stopped reports whether no thread of a process runs. A signal to stop takes
// its time with those that are busy.
func Stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	return len(threads) > 0 && !slices.ContainsFunc(threads, func(dir string) bool {
		state, _ := status(dir)
		return state != "T"
	})
}

// sweep removes what outlives processes. Mounts do not: they were in a name
// space that nobody is in any more.
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
		return fmt.Errorf("a mount of the engine is ours too, below %s", e.Dir)
	}
	return os.RemoveAll(e.Dir)
}

// group is the control group that the engine's containers are in.
func (e *Engine) group() string { return filepath.Base(e.Dir) }

// removeGroup removes a control group and those in it, from the bottom up. Their
// files cannot be removed, and need not be.
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

// rmdir removes a control group. It is busy for a moment after its last process
// has ended.
func rmdir(dir string) error {
	for deadline := time.Now().Add(5 * time.Second); ; {
		err := syscall.Rmdir(dir)
		if err != syscall.EBUSY || time.Now().After(deadline) {
			return err
		}
		<-time.After(5 * time.Millisecond)
	}
}
