package soak

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/boxtest"
)

// waitLimit is how long a test waits for something that takes milliseconds.
const waitLimit = 30 * time.Second

// program is the path of the program that the tests run.
var program string

// TestMain builds the program, with the race detector, and runs the tests.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "warmbox")
	build := exec.Command("go", "build", "-race", "-o", program, "github.com/warmbox/warmbox/cmd/warmbox")
	build.Stderr = os.Stderr
	code := 1
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the program:", err)
	} else {
		code = boxtest.Guarded{M: m}.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}
