//go:build linux

package agent

import (
	"bytes"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	pageSize = 4096 // the smallest of any processor: memory is read in parts that do not cross a page

	// argumentPart is how much of each argument is read at first; few are longer.
	argumentPart = 128

	// maxCounted bounds the arguments that are counted.
	maxCounted = 1 << 15
)

// memory reads the memory of another process.
type memory struct {
	pid     int
	pointer uint64 // size of a pointer
	buf     [wire.MaxProgramText + 8]byte
	parts   [wire.MaxProgramArgs][argumentPart]byte
}

// read reads up to len(p) bytes, to the end of a page at most.
func (m *memory) read(at uint64, p []byte) (n int, err error) {
	if rest := pageSize - at%pageSize; uint64(len(p)) > rest {
		p = p[:rest]
	}
	return peek(m.pid, uintptr(at), p)
}

// text reads a string that ends with a zero byte, up to most bytes of it.
func (m *memory) text(at uint64, most int) (s string, cut, ok bool) {
	buf := m.buf[:0]
	for len(buf) <= most {
		part := m.buf[len(buf) : len(buf)+min(most+1-len(buf), 1024)]
		n, err := m.read(at+uint64(len(buf)), part)
		if err != nil || n == 0 {
			return string(buf), false, false
		}
		if end := bytes.IndexByte(part[:n], 0); end >= 0 {
			return string(m.buf[:len(buf)+end]), false, true
		}
		buf = m.buf[:len(buf)+n]
	}
	return string(m.buf[:most]), true, true
}

// arguments reads an argument list into a record.
func (m *memory) arguments(argv uint64, b *wire.Program) {
	if argv == 0 {
		return // the kernel allows it
	}
	list, ok := m.pointers(argv, nil, wire.MaxProgramArgs+1)
	b.Unread = b.Unread || !ok
	if len(list) > wire.MaxProgramArgs {
		b.More = m.count(argv)
		list = list[:wire.MaxProgramArgs]
	}
	m.strings(list, b)
}

// pointers reads pointers up to a null pointer, most of them at most.
func (m *memory) pointers(at uint64, list []uint64, most int) (all []uint64, ok bool) {
	var buf [(wire.MaxProgramArgs + 1) * 8]byte
	for len(list) < most {
		n, err := m.read(at, buf[:min(uint64(len(buf)), uint64(most-len(list))*m.pointer)])
		if err != nil || uint64(n) < m.pointer {
			return list, false
		}
		for i := uint64(0); i+m.pointer <= uint64(n); i += m.pointer {
			p := uint64(0)
			for k := m.pointer; k > 0; k-- {
				p = p<<8 | uint64(buf[i+k-1])
			}
			if p == 0 {
				return list, true
			}
			list = append(list, p)
		}
		at += uint64(n) / m.pointer * m.pointer
	}
	return list, true
}

// count returns how many arguments a list has beyond those that are shown, -1 if it cannot
// be known.
func (m *memory) count(argv uint64) int {
	list, ok := m.pointers(argv, nil, maxCounted)
	if !ok || len(list) == maxCounted {
		return -1
	}
	return len(list) - wire.MaxProgramArgs
}

// strings reads the strings of a list. Most are read with one system call.
func (m *memory) strings(list []uint64, b *wire.Program) {
	got := m.beginnings(list)
	room := wire.MaxProgramText
	for i, at := range list {
		if i < len(got) {
			if end := bytes.IndexByte(got[i], 0); end >= 0 && end <= room {
				b.Args = append(b.Args, string(got[i][:end]))
				room -= end
				continue
			}
		}
		s, cut, ok := m.text(at, room)
		b.Args = append(b.Args, s)
		b.Cut, b.Unread = b.Cut || cut, b.Unread || !ok
		room -= len(s)
	}
}

// beginnings reads the beginnings of strings, as many as one system call reads.
func (m *memory) beginnings(list []uint64) (got [][]byte) {
	if len(list) == 0 {
		return nil
	}
	var local [wire.MaxProgramArgs]unix.Iovec
	var remote [wire.MaxProgramArgs]unix.RemoteIovec
	for i, at := range list {
		n := int(min(argumentPart, pageSize-at%pageSize))
		local[i].Base = &m.parts[i][0]
		local[i].SetLen(n)
		remote[i] = unix.RemoteIovec{Base: uintptr(at), Len: n}
	}
	n, err := unix.ProcessVMReadv(m.pid, local[:len(list)], remote[:len(list)], 0)
	if err != nil {
		return nil
	}
	for i := range list {
		if n -= remote[i].Len; n < 0 {
			break
		}
		got = append(got, m.parts[i][:remote[i].Len])
	}
	return got
}

// image identifies the program that a process executes: it changes with each successful
// exec, by the addresses that the kernel draws anew, and by a flag that the first one clears.
type image struct {
	code, stack, args, env uint64
	forked                 bool // it has executed no program since it was forked
}

// state is what /proc/PID/stat says of a process. The file is read without openProc, which
// may wait.
type state struct {
	parent, session, threads int
	start                    uint64
	ended                    bool
	image                    image
}

func readState(pid int, buf *[1024]byte) (s state, ok bool) {
	fd, err := unix.Open(procPath(pid, "stat"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return s, false
	}
	n, err := unix.Read(fd, buf[:])
	unix.Close(fd)
	if err != nil {
		return s, false
	}
	const parent, session, flags, threads, start, code, stack, args, env = 1, 3, 6, 17, 19, 23, 25, 45, 47
	const forkNoExec = 0x40 // the kernel's PF_FORKNOEXEC
	text := buf[:n]
	text = text[bytes.LastIndexByte(text, ')')+1:]
	var numbers [env + 1]uint64
	i := 0
	for field := range bytes.FieldsSeq(text) {
		if i == 0 {
			s.ended = field[0] == 'Z' || field[0] == 'X'
		} else {
			for _, c := range field {
				numbers[i] = numbers[i]*10 + uint64(c-'0')
			}
		}
		if i++; i > env {
			break
		}
	}
	s.parent, s.session, s.threads, s.start = int(numbers[parent]), int(numbers[session]), int(numbers[threads]), numbers[start]
	s.image = image{numbers[code], numbers[stack], numbers[args], numbers[env], numbers[flags]&forkNoExec != 0}
	return s, i > env
}

// processOf returns the process of a thread.
func processOf(tid int) (pid int, ok bool) {
	var buf [4096]byte
	fd, err := unix.Open(procPath(tid, "status"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	n, _ := unix.Read(fd, buf[:])
	unix.Close(fd)
	for line := range bytes.Lines(buf[:max(n, 0)]) {
		if text, found := bytes.CutPrefix(line, []byte("Tgid:")); found {
			pid, err = strconv.Atoi(string(bytes.TrimSpace(text)))
			return pid, err == nil
		}
	}
	return 0, false
}

// target returns the path of the program of an execveat.
func (m *memory) target(dir int32, path uint64, flags uint64, b *wire.Program) {
	var cut, ok bool
	b.Path, cut, ok = m.text(path, wire.MaxProgramText)
	b.Cut, b.Unread = b.Cut || cut, b.Unread || !ok
	if !ok || dir == unix.AT_FDCWD || len(b.Path) > 0 && b.Path[0] == '/' || b.Path == "" && flags&unix.AT_EMPTY_PATH == 0 {
		return
	}
	base, err := os.Readlink(procPath(m.pid, "fd/"+strconv.Itoa(int(dir))))
	switch {
	case err != nil:
		b.Unread = true
	case b.Path == "":
		b.Path = base
	default:
		b.Path = base + "/" + b.Path
	}
}

// sameArguments reports whether two records name the same arguments, so that the second may
// be the next attempt of a search of PATH.
func sameArguments(a, b wire.Program) bool {
	return slices.Equal(a.Args, b.Args) && a.More == b.More && a.Cut == b.Cut && a.Unread == b.Unread
}
