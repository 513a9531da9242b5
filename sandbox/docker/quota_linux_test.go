package docker

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

var all = excerpt.Limits{Whole: 1 << 20, Cut: 1 << 20}

// exhaustTimers creates as many timers as a user may have, prints their number, and
// holds them until it is killed.
const exhaustTimers = `import ctypes, sys, time
libc = ctypes.CDLL(None)
n = 0
def timer(): return libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p()))
while n < 200000 and timer() == 0: n += 1
print(n, flush=True)
time.sleep(1000)`

// A box that uses up all signals that may be pending, which the kernel counts for its
// user, leaves some to the same user of this machine. Another box has none left if
// the engine gives both the same user; what needs no signal works there.
func TestBoxCannotExhaustQuotasOfUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	greedy, other := startBox(t, sandbox.Spec{}), startBox(t, sandbox.Spec{})
	run, err := greedy.Exec(t.Context(), sandbox.Command{Cmd: "exec python3 -c '" + exhaustTimers + "'", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	line := firstLine(t, run)
	var n int
	if _, err := fmt.Sscan(line, &n); err != nil || n == 0 || n > 1024 {
		t.Errorf("a box has %q timers, %v; 1024 are the most", line, err)
	}
	if err := timerAs(1000); err != nil {
		t.Errorf("user 1000 of this machine: %v", err)
	}
	if out := printed(t, other, "ulimit -i; ulimit -q; ulimit -l; sleep 0.01; timeout 5 echo fine 2>/dev/null; kill -USR1 $BASHPID; echo not reached"); out != "1024\n262144\n4096\nfine\n" {
		t.Errorf("another box: %q", out)
	}
	run.Kill()
	<-run.Over()
}

func printed(t *testing.T, box *sandbox.Box, cmd string) string {
	t.Helper()
	run, err := box.Exec(t.Context(), sandbox.Command{Cmd: cmd, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	<-run.Done()
	stdout, _ := run.Output(all)
	return stdout.Text
}

// firstLine waits for a line of a run that continues.
func firstLine(t *testing.T, run *sandbox.Run) string {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		stdout, _ := run.Output(all)
		if line, err := bufio.NewReader(strings.NewReader(stdout.Text)).ReadString('\n'); err == nil {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("it prints nothing: %+v", run.Exit())
	return ""
}

// timerAs creates a timer as another user of this machine, on a thread that becomes
// that user and ends.
func timerAs(uid uintptr) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocks it
		result <- func() error {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
				return errors.Join(errors.New("become that user"), errno)
			}
			var timer int32
			if _, _, errno := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&timer))); errno != 0 {
				return errors.Join(errors.New("make a timer"), errno)
			}
			unix.RawSyscall(unix.SYS_TIMER_DELETE, uintptr(timer), 0, 0)
			return nil
		}()
	}()
	return <-result
}
