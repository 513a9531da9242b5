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

// siginfo is what a sender may fill in.
type siginfo struct {
	number, errno, code, _ int32
	_                      [14]uint64
}

// TestTakesFaults does in a process of its own what TestSentFaults asks for.
func TestTakesFaults(t *testing.T) {
	if os.Getenv("WARMBOX_TEST_FAULTS") == "" {
		t.Skip("it would leave this process with other signal handlers")
	}
	dropSentFaults()
	recovered := 0
	for range 3 {
		for _, sig := range faults {
			for code := range int32(64) {
				if code == 0 || code == 6 { // what kill and tgkill say, for which a thread is another
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
