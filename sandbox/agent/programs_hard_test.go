//go:build linux

package agent_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// execEnv is the variable that makes the test program execute another one in an unusual way.
const execEnv = "WARMBOX_TEST_EXEC"

// executeOddly executes /bin/echo, or another program, in the way that is named.
func executeOddly(way string) {
	echo, env := []string{"echo", way}, []string{"A=1"}
	var err error
	switch way {
	case "memfd":
		fd, e := unix.MemfdCreate("hidden", 0)
		text, _ := os.ReadFile("/bin/echo")
		unix.Write(fd, text)
		err = e
		if err == nil {
			err = execveat(fd, "", echo, env, unix.AT_EMPTY_PATH)
		}
	case "directory":
		fd, e := unix.Open("/bin", unix.O_PATH, 0)
		if err = e; err == nil {
			err = execveat(fd, "echo", echo, env, 0)
		}
	case "thread":
		done := make(chan error)
		for range 4 { // one of them is not the first thread
			go func() {
				runtime.LockOSThread()
				if unix.Gettid() != os.Getpid() {
					done <- syscall.Exec("/bin/echo", echo, env)
				}
				select {}
			}()
		}
		err = <-done
	case "invalid":
		// The kernel refuses an argument that it cannot read.
		path, _ := unix.BytePtrFromString("/bin/echo")
		argv := []uintptr{uintptr(unsafe.Pointer(path)), 1, 0}
		_, _, errno := unix.Syscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), 0)
		if errno != unix.EFAULT {
			err = fmt.Errorf("an invalid argument: %w", errno)
		}
		_, _, errno = unix.Syscall(unix.SYS_EXECVE, 1, 1, 0)
		if err == nil && errno != unix.EFAULT {
			err = fmt.Errorf("an invalid path: %w", errno)
		}
	case "large":
		args := []string{"echo"}
		for range 10_000 {
			args = append(args, strings.Repeat("x", 100))
		}
		err = syscall.Exec("/bin/echo", args, env)
	case "crossing": // the path ends at the end of a page, before one that cannot be read
		mem, e := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err = e; err == nil {
			unix.Mprotect(mem[4096:], unix.PROT_NONE)
			path := append([]byte("/bin/echo"), 0)
			copy(mem[4096-len(path):], path)
			argv := []unsafe.Pointer{unsafe.Pointer(&mem[4096-len("echo\x00")]), nil}
			_, _, err = unix.Syscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(&mem[4096-len(path)])), uintptr(unsafe.Pointer(&argv[0])), 0)
		}
	case "blocked":
		err = executeBlocked()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// The kernel's numbers for userfaultfd.
const (
	uffdAPI      = 0xc018aa3f
	uffdRegister = 0xc020aa00
	uffdCopy     = 0xc028aa03
	uffdThreadID = 1 << 8
)

// executeBlocked executes a program with an argument that cannot be read before the file "go"
// exists. Once the kernel itself wants to read it, it writes a byte to the file "waiting".
func executeBlocked() error {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		fmt.Println("no userfaultfd:", errno)
		return nil
	}
	const size = 4096
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	ioctl := func(op uintptr, args ...uint64) error {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, op, uintptr(unsafe.Pointer(&args[0])))
		if errno != 0 {
			return errno
		}
		return nil
	}
	at := uint64(uintptr(unsafe.Pointer(&mem[0])))
	if err := errors.Join(ioctl(uffdAPI, 0xaa, uffdThreadID, 0), ioctl(uffdRegister, at, size, 1, 0)); err != nil {
		return err
	}
	runtime.LockOSThread()
	self := unix.Gettid()
	go func() {
		var event [32]byte // the last field names the thread; at first it is the agent's
		for int(binary.NativeEndian.Uint32(event[24:])) != self {
			unix.Read(int(fd), event[:])
		}
		if f, err := os.OpenFile("waiting", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
			f.WriteString(".")
		}
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if _, err := os.Stat("go"); err == nil {
				break
			}
		}
		page := make([]byte, 2*size) // has an aligned part
		copy(page[size-int(uintptr(unsafe.Pointer(&page[0]))%size):], "read\x00")
		src := uint64(uintptr(unsafe.Pointer(&page[0])))
		ioctl(uffdCopy, at, src+size-src%size, size, 0, 0)
	}()
	path, _ := unix.BytePtrFromString("/bin/echo")
	argv := []unsafe.Pointer{unsafe.Pointer(path), unsafe.Pointer(&mem[0]), nil}
	_, _, errno = unix.Syscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), 0)
	return errno
}

func execveat(dir int, path string, argv, env []string, flags int) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	args, err := syscall.SlicePtrFromStrings(argv)
	if err != nil {
		return err
	}
	vars, err := syscall.SlicePtrFromStrings(env)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall6(unix.SYS_EXECVEAT, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&args[0])),
		uintptr(unsafe.Pointer(&vars[0])), uintptr(flags), 0)
	return errno
}

// TestUnusualExecs: whatever way a process takes, the record says what it gave to the kernel.
func TestUnusualExecs(t *testing.T) {
	a := startAudited(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for way, want := range map[string]string{
		"memfd":     `/memfd:hidden (deleted) ["echo" "memfd"] = 0`,
		"directory": `BIN/echo ["echo" "directory"] = 0`,
		"thread":    `/bin/echo ["echo" "thread"] = 0`,
		"invalid":   `/bin/echo ["/bin/echo" ""] unread failed` + "\n" + ` [] unread failed`,
		"large":     fmt.Sprintf("/bin/echo [%q%s] +9969 = 0", "echo", strings.Repeat(` "`+strings.Repeat("x", 100)+`"`, 31)),
		"crossing":  `/bin/echo ["echo"] = 0`,
	} {
		t.Run(way, func(t *testing.T) {
			out, list := a.exec(execEnv + "=" + way + " " + self + "; :")
			bin, err := filepath.EvalSymlinks("/bin")
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Split(strings.ReplaceAll(said(list), bin+"/echo [\"echo\" \"dir", "BIN/echo [\"echo\" \"dir"), "\n")
			if len(got) < 3 || strings.Join(got[2:len(got)-1], "\n") != want {
				t.Errorf("%s\n%s\nwant\n%s", out, strings.Join(got[min(2, len(got)):], "\n"), want)
			}
			for _, p := range list {
				if p.Pid < 1 || p.Parent < 1 {
					t.Errorf("%+v", p)
				}
			}
		})
	}
}

// TestProgramsBelongToTheirRun: daemons that leave their session and environment, and runs at
// the same time.
func TestProgramsBelongToTheirRun(t *testing.T) {
	a := startAudited(t)
	_, list := a.exec(`(setsid sh -c 'sleep 0.3; exec env -i /bin/echo late' >/dev/null 2>&1 &); :`)
	text := said(list)
	for _, want := range []string{`"setsid"`, `["env" "-i" "/bin/echo" "late"]`, `/bin/echo ["/bin/echo" "late"] = 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	var runs []wire.ID
	for i := range 4 {
		runs = append(runs, a.run(wire.StartBody{Cmd: fmt.Sprintf(`for i in $(seq 30); do setsid /bin/echo run%d; done`, i)}))
	}
	for i, run := range runs {
		a.wait(run)
		list := a.of(run)
		n := 0
		for _, p := range list {
			if p.Path == "/bin/echo" {
				n++
				if p.Args[1] != fmt.Sprintf("run%d", i) {
					t.Errorf("run %d has %q", i, p.Args)
				}
			}
		}
		if n != 30 {
			t.Errorf("run %d has %d of 30 programs", i, n)
		}
	}
}

// TestUnreadableArgumentsHoldUpNothing: a process whose arguments block whoever reads them is
// recorded, and executes its program. More of them than the agent has threads for hold up
// neither each other nor anything else.
func TestUnreadableArgumentsHoldUpNothing(t *testing.T) {
	a := startAudited(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const processes = 8
	dir := t.TempDir()
	run := a.run(wire.StartBody{Dir: dir, Cmd: fmt.Sprintf(`for i in $(seq %d); do %s=blocked %s & done
for n in $(seq 1000); do [ "$(cat waiting 2>/dev/null)" = %s ] && break; sleep 0.01; done; cat waiting >seen; : >go; wait`, processes, execEnv, self, strings.Repeat(".", processes))})
	out := a.wait(run)
	if strings.Contains(out, "no userfaultfd") {
		t.Skip(out)
	}
	if want := strings.Repeat("read\n", processes); out != want {
		t.Errorf("%q, want %q", out, want)
	}
	unread := 0
	for _, p := range a.of(run) {
		if p.Unread && !p.Failed {
			unread++
		}
	}
	seen, _ := os.ReadFile(filepath.Join(dir, "seen"))
	if unread < processes || len(seen) != processes { // meanwhile nothing else is read either
		t.Errorf("%d records of %d processes that %d had: %s", unread, processes, len(seen), said(a.of(run)))
	}
}

// TestSilentHostHoldsUpNoProgram: a run goes on executing programs while its host reads nothing.
// The records that the agent keeps are bounded, and the host learns how many it lacks.
func TestSilentHostHoldsUpNoProgram(t *testing.T) {
	a := startAudited(t)
	dir := t.TempDir()
	programs := weekly.Or(700, 20_000) // 500 records of 8 KB fill the queue
	long, path := strings.Repeat("x", 4000), strings.Repeat("/.", 2000)+"/bin/true"
	run := a.run(wire.StartBody{Dir: dir, Cmd: fmt.Sprintf(`for i in $(seq %d); do %s $i %s; done; : >done; :`, programs, path, long)})
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "done")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the run hangs")
		}
	}
	a.wait(run)
	kept, total := 0, int64(0)
	for _, p := range a.programs {
		switch {
		case p.Total:
			total = p.Seq
		case p.Path == path:
			kept++
		}
	}
	if want := int64(programs) + 2; total != want || kept == 0 || kept >= programs { // the shell and seq
		t.Errorf("%d records of %d programs, total %d, want %d", kept, programs, total, want)
	}
}

// TestNoProgramIsMissed: the records of a parallel build are as many as the programs that it
// executed, by their own count: each appends a byte to a file.
func TestNoProgramIsMissed(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}
	targets := weekly.Or(160, 3500) // each is three programs
	a := startAudited(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tool":     "#!/bin/sh\nprintf . >>" + dir + "/count\n: >$2\n",
		"Makefile": fmt.Sprintf("all: $(shell seq -f out/%%05.0f %d)\nout/%%:\n\t@./tool -o $@; ./tool -o $@.2\n", targets),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out, list := a.exec("mkdir " + dir + "/out && make -j4 -C " + dir)
	count, err := os.ReadFile(filepath.Join(dir, "count"))
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tools, shells := 0, 0
	seen := map[string]bool{}
	for _, p := range list {
		switch {
		case p.Path == "./tool":
			tools++
			if seen[p.Args[2]] || p.Exit == nil || *p.Exit != 0 {
				t.Errorf("%+v", p)
			}
			seen[p.Args[2]] = true
		case len(p.Args) == 3 && strings.HasPrefix(p.Args[2], "./tool"):
			shells++
		}
	}
	t.Logf("%d programs", len(list))
	if len(count) != 2*targets || tools != 2*targets || shells != targets {
		t.Errorf("%d records of tools and %d of shells, want %d and %d; %d tools ran", tools, shells, 2*targets, targets, len(count))
	}
}
