//go:build linux

package agent

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// proc is a process as /proc shows it.
type proc struct {
	pid, ppid, pgid, sid int
	threads              int
	zombie               bool    // all of its threads have ended
	headless             bool    // its first thread has ended and others run
	bare                 bool    // it shows no environment, not even an empty one
	args                 uintptr // address of its arguments in its memory
	start                uint64  // in clock ticks since boot; with the pid it identifies a process for good
	name                 string
}

// maxEnviron bounds how much of a process's environment is searched for a mark. The mark
// is first, unless the program that started the process sorted the variables.
const maxEnviron = 1 << 20

func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}

// readProc parses /proc/PID/stat. The name in it may contain anything, also ")".
func readProc(pid int) (p proc, ok bool) {
	var buf [1024]byte
	text := readInto(buf[:], procPath(pid, "stat"))
	open, shut := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || shut < open {
		return p, false
	}
	f := bytes.Fields(text[shut+1:])
	const state, ppid, group, session, threads, start, args, environ = 0, 1, 2, 3, 17, 19, 45, 47
	if len(f) <= environ {
		return p, false
	}
	num := func(i int) int { n, _ := strconv.Atoi(string(f[i])); return n }
	p = proc{pid: pid, ppid: num(ppid), pgid: num(group), sid: num(session), threads: num(threads), name: string(text[open+1 : shut])}
	p.start, _ = strconv.ParseUint(string(f[start]), 10, 64)
	p.args = uintptr(num(args))
	ended := f[state][0] == 'Z' || f[state][0] == 'X'
	p.headless = ended && p.threads > 1
	p.zombie = ended && !p.headless
	p.bare = string(f[environ]) == "0"
	return p, true
}

// children returns the agent's own: adopted ones are listed for the main thread, started
// ones for the thread that forked. With CLONE_PARENT a child can add siblings to that
// thread too.
func (a *Agent) children() []int { return childrenOn(a.procs.forkers) }

// childrenOn returns the children of the main thread and of some others.
func childrenOn(threads map[int]bool) []int {
	self := os.Getpid()
	list := childrenOf(self, self)
	if !childrenListed() {
		return list // childrenOf has searched all processes
	}
	for tid := range threads {
		if tid != self {
			list = append(list, childrenOf(self, tid)...)
		}
	}
	return list
}

func childrenOf(pid, tid int) (list []int) {
	var buf [4096]byte
	path := procPath(pid, "task/"+strconv.Itoa(tid)+"/children")
	text := readInto(buf[:], path)
	if text == nil && !childrenListed() {
		return searchChildren(pid)
	}
	if len(text) > len(buf)-16 { // the list may be longer
		text = readWhole(path)
	}
	for _, f := range bytes.Fields(text) {
		if n, err := strconv.Atoi(string(f)); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// childrenListed reports whether the kernel lists children at all; it can be built
// without.
var childrenListed = sync.OnceValue(func() bool {
	_, err := os.Stat(procPath(os.Getpid(), "task/"+strconv.Itoa(os.Getpid())+"/children"))
	return err == nil
})

// searchChildren finds the children of a process by reading all processes.
func searchChildren(pid int) (list []int) {
	for _, name := range namesIn("/proc") {
		if n, err := strconv.Atoi(name); err == nil {
			if p, ok := readProc(n); ok && p.ppid == pid {
				list = append(list, n)
			}
		}
	}
	return list
}

// kids returns the children of all threads of a process.
func (p proc) kids() []int {
	if p.threads <= 1 {
		return childrenOf(p.pid, p.pid)
	}
	var list []int
	for _, name := range namesIn(procPath(p.pid, "task")) {
		if tid, err := strconv.Atoi(name); err == nil {
			list = append(list, childrenOf(p.pid, tid)...)
		}
	}
	return list
}

// mark returns the mark in the environment that the process was started with, "" if it
// has none. It is not sure for a process that is just executing another program, which
// takes a while on a busy machine, nor for one that denies access: the two look the same.
func (p proc) mark() (mark string, sure bool) {
	for range 3 { // an execve may have begun and ended between two reads
		text := p.environ()
		if len(text) > 0 {
			return findMark(text), true
		}
		if now, ok := readProc(p.pid); !ok || now.bare && !now.headless {
			return "", false
		}
	}
	return "", true
}

// environ returns the environment up to the mark, or all of it. A thread that has ended
// shows none, so the others are read.
func (p proc) environ() []byte {
	if !p.headless {
		return readEnviron(procPath(p.pid, "environ"))
	}
	for _, tid := range namesIn(procPath(p.pid, "task")) {
		if text := readEnviron(procPath(p.pid, "task/"+tid+"/environ")); len(text) > 0 {
			return text
		}
	}
	return nil
}

func readEnviron(path string) []byte {
	fd, err := openProc(path)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	text := make([]byte, 4096)
	have := 0
	for have < maxEnviron {
		n, err := unix.Read(fd, text[have:])
		have += max(n, 0)
		if err != nil || n <= 0 || findMark(text[:have]) != "" {
			break
		}
		if have == len(text) {
			text = append(text, make([]byte, len(text))...)
		}
	}
	return text[:have]
}

func findMark(environ []byte) string {
	for v := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.HasPrefix(v, []byte(markName)) && len(v) == markLen {
			return string(v)
		}
	}
	return ""
}

// age returns the age of the process in seconds.
func (p proc) age() float64 {
	const ticks = 100 // per second: what Linux shows to programs on every architecture
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return float64(now.Nano())/1e9 - float64(p.start)/ticks
}

// send sends a signal to this process, never to a later one with the same pid.
func (p proc) send(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil { // an old kernel, a filter that refuses the call, or the process is gone
		if p.lives() {
			unix.Kill(p.pid, sig)
		}
		return
	}
	defer unix.Close(fd)
	if p.lives() {
		if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && err != unix.ESRCH {
			unix.Kill(p.pid, sig)
		}
	}
}

// lives reports whether the process exists and has not ended.
func (p proc) lives() bool {
	now, ok := readProc(p.pid)
	return ok && now.start == p.start && !now.zombie
}

// readInto reads the beginning of a file with one read.
func readInto(buf []byte, path string) []byte {
	fd, err := openProc(path)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, _ := unix.Read(fd, buf)
	return buf[:max(n, 0)]
}

// readWhole reads a whole file, or as much as it can if the process ends meanwhile.
func readWhole(path string) []byte {
	fd, err := openProc(path)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	text, _ := io.ReadAll(f)
	return text
}

// namesIn lists a directory.
func namesIn(path string) []string {
	fd, err := openProc(path)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}
