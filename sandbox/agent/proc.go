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

// proc is a process as the kernel shows it.
type proc struct {
	pid, ppid, pgid, sid int
	threads              int
	zombie               bool    // it has ended, all of it
	headless             bool    // its first thread has ended and others go on
	bare                 bool    // shows no environment, not even an empty one
	args                 uintptr // where its arguments are in its memory
	start                uint64  // clock ticks since boot: with the pid it names a process for good
	name                 string
}

// maxEnviron bounds how much of a process's environment is read to find a mark.
// The mark stands first, unless the program that started it sorted its own.
const maxEnviron = 1 << 20

func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}

// readProc reads /proc/PID/stat. The name in it may hold anything, also ")".
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

// children returns our own: what we adopted hangs on the main thread, and what we
// started on the thread that forked. A child of ours can make siblings there too, with
// CLONE_PARENT.
func (a *Agent) children() []int { return childrenOn(a.forkers) }

// childrenOn returns those on the main thread and on some others.
func childrenOn(threads map[int]bool) []int {
	self := os.Getpid()
	list := childrenOf(self, self)
	if !childrenListed() {
		return list // which is all of them
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
	if len(text) > len(buf)-16 { // there may be more
		text = readWhole(path)
	}
	for _, f := range bytes.Fields(text) {
		if n, err := strconv.Atoi(string(f)); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// childrenListed reports whether the kernel lists children at all; some are
// built without.
var childrenListed = sync.OnceValue(func() bool {
	_, err := os.Stat(procPath(os.Getpid(), "task/"+strconv.Itoa(os.Getpid())+"/children"))
	return err == nil
})

// searchChildren finds them among all processes.
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

// mark returns the mark in the environment that the process was started with,
// "" where it has none. It is not sure of that for one that is just becoming
// another program, which takes a while on a busy machine, nor for one that lets
// nobody look: they show the same.
func (p proc) mark() (mark string, sure bool) {
	for range 3 { // it may have begun and ended between two looks
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

// environ returns the environment as far as the mark, if that is in it. A thread that
// has ended has none to show, so the others are asked.
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
	fd, err := openToLook(path)
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

// age returns for how many seconds the process has run.
func (p proc) age() float64 {
	const ticks = 100 // a second: what Linux shows to programs, on every architecture
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return float64(now.Nano())/1e9 - float64(p.start)/ticks
}

// send sends a signal to this very process, not to one that got its pid since.
func (p proc) send(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil { // an old kernel, a filter that does not know the call, or it is gone
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

// lives reports whether the process is there and has not ended.
func (p proc) lives() bool {
	now, ok := readProc(p.pid)
	return ok && now.start == p.start && !now.zombie
}

// readInto reads the beginning of a file without asking for its size.
func readInto(buf []byte, path string) []byte {
	fd, err := openToLook(path)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, _ := unix.Read(fd, buf)
	return buf[:max(n, 0)]
}

// readWhole reads all of a file, or of what was there of its process.
func readWhole(path string) []byte {
	fd, err := openToLook(path)
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
	fd, err := openToLook(path)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}
