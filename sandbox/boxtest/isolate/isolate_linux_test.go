package isolate

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// childEnv makes the test binary the process that inherits.
const childEnv = "WARMBOX_TEST_INHERITS"

// TestProcess starts this test as a process that inherits ignored signals, a
// descriptor and a mask, and sees what a command inherits from it.
func TestProcess(t *testing.T) {
	const show = `grep SigIgn /proc/self/status; umask; test -e /proc/self/fd/9 && echo descriptor 9`
	if os.Getenv(childEnv) != "" {
		Process()
		out, err := exec.Command("sh", "-c", show).CombinedOutput()
		if err != nil && len(out) == 0 {
			t.Fatal(err)
		}
		os.Stdout.Write(out)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ inherit, sees, lacks string }{
		"nohup":                  {"trap '' HUP", "0000000000000000", ""},
		"background of a shell":  {"trap '' INT QUIT", "0000000000000000", ""},
		"mask of a private home": {"umask 077", "0022", ""},
		"open descriptor":        {"exec 9</dev/null", "SigIgn", "descriptor"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", tt.inherit+`; exec "$0" -test.run='^TestProcess$'`, self)
			cmd.Env = append(os.Environ(), childEnv+"=1")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if !strings.Contains(string(out), tt.sees) || tt.lacks != "" && strings.Contains(string(out), tt.lacks) {
				t.Errorf("a command inherits %s", out)
			}
		})
	}
}
