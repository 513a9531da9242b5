//go:build linux

package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// hideEnv is the variable that makes the test program a process that hides in a given way.
const hideEnv = "WARMBOX_TEST_HIDE"

// hiddenName is the name of the processes of one test, at most 15 bytes.
func hiddenName(nth int) string { return fmt.Sprintf("hides %d %d", os.Getpid(), nth) }

// An init function runs on the program's first thread, which some ways need.
func init() {
	way, name, ok := strings.Cut(os.Getenv(hideEnv), " ")
	if !ok {
		return
	}
	runtime.LockOSThread()
	os.WriteFile("/proc/self/comm", []byte(name), 0)
	switch way {
	case "headless":
		others := make(chan struct{})
		go func() { // on another thread, since this goroutine is locked to its own
			close(others)
			<-time.After(20 * time.Second) // bounds the life of a process that a failing test leaves
			os.Exit(0)
		}()
		<-others
		unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	case "chain":
		hop(20_000)
	case "sibling":
		// A new program does not share the agent's memory, so the clone is only its sibling.
		if pid, _, _ := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_PARENT|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0); pid == 0 {
			unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
			for fd := range uintptr(3) {
				unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
			}
			rest := unix.Timespec{Sec: 20}
			unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&rest)), 0, 0)
		}
	}
	unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
}

// hop is a chain of processes, each in a session of its own, that fork and end. It only
// makes system calls, since a forked Go program has one thread.
func hop(times int) {
	for range times {
		pid, _, _ := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if pid != 0 {
			return
		}
		unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	}
}

// hidden counts the processes with a name.
func hidden(called string) (n int) {
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		comm, _ := os.ReadFile(name)
		if string(comm) == called+"\n" {
			n++
		}
	}
	return n
}

// Processes that are hard to find are reported as left over when their command ends, and
// are gone after a kill.
func TestHiddenProcessesAreLeftOver(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i, hide := range []struct {
		way, cmd string
		rounds   int
		beside   bool // with another run in the box
	}{
		{"headless", "setsid $SELF >/dev/null 2>&1 & sleep 0.2; exit 7", 1, false},
		{"headless", "setsid $SELF >/dev/null 2>&1 & sleep 0.2; exit 7", 1, true},
		{"chain", "setsid $SELF >/dev/null 2>&1 </dev/null & sleep 0.1; exit 7", 6, false},
		{"chain", "setsid $SELF >/dev/null 2>&1 </dev/null & sleep 0.1; exit 7", 4, true},
		{"sibling", "exec $SELF", 1, false},
		{"sibling", "exec $SELF", 1, true},
	} {
		t.Run(fmt.Sprintf("%s, beside another run: %v", hide.way, hide.beside), func(t *testing.T) {
			t.Parallel() // the test mostly waits
			called := hiddenName(i)
			h := start(t, "SELF="+self, hideEnv+"="+hide.way+" "+called)
			if hide.beside {
				h.until(h.run(wire.StartBody{Cmd: "echo up; exec sleep 60"}), "up")
			}
			for range hide.rounds {
				id := h.run(wire.StartBody{Cmd: hide.cmd})
				if _, exit := h.until(id, ""); !exit.Open || len(exit.Leftover) == 0 {
					t.Fatalf("not left over: %+v", exit)
				}
				h.sendJSON(wire.Kill, id, wire.KillBody{})
				for f, err := h.r.Read(); f.Kind != wire.Closed || f.Run != id; f, err = h.r.Read() {
					if err != nil {
						t.Fatal(err)
					}
				}
				// The kernel ends killed processes in its own time; a chain that survived goes on.
				for deadline := time.Now().Add(time.Second); hidden(called) > 0; time.Sleep(5 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%d processes outlive their run", hidden(called))
					}
				}
			}
		})
	}
}
