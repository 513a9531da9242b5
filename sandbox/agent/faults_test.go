//go:build linux

package agent

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// siginfo is the part of the kernel's siginfo that a sender may set.
type siginfo struct {
	number, errno, code, _ int32
	_                      [14]uint64
}

// TestFaultsInAProcessOfTheirOwn is the process that TestForgedFaultsAreDropped starts.
func TestFaultsInAProcessOfTheirOwn(t *testing.T) {
	if os.Getenv("WARMBOX_TEST_FAULTS") == "" {
		t.Skip("TestForgedFaultsAreDropped runs it: it replaces signal handlers of the process")
	}
	dropSentFaults()
	recovered := 0
	for range 3 {
		for _, sig := range faults {
			for code := range int32(64) {
				if code == 0 || code == 6 { // the codes of kill and tgkill, which the runtime drops itself
					continue
				}
				info := siginfo{number: int32(sig), code: -code}
				if _, _, errno := unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(os.Getpid()), uintptr(sig), uintptr(unsafe.Pointer(&info))); errno != 0 {
					t.Fatal(errno)
				}
			}
		}
		func() {
			debug.SetPanicOnFault(true)
			defer func() {
				if err, ok := recover().(error); ok && strings.Contains(err.Error(), "nil pointer") {
					recovered++
				}
			}()
			var p *siginfo
			t.Log(p.code)
		}()
	}
	t.Logf("recovered %d times", recovered)
}
