// Package boxtest states what a box does, once for every backend: Run checks a Launcher.
// It also provides a Launcher of real agents that are processes of the test program, and
// the probe that detects what a test leaves behind.
//
// A test package that uses it calls Main from its TestMain.
package boxtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest/isolate"
	"github.com/warmbox/warmbox/sandbox/launch"
)

// agentEnv is the variable that makes a test program an agent.
const agentEnv = "WARMBOX_TEST_AGENT"

// Main runs a package's tests, or the agent if the test program was started as one. It
// fails if the tests leave anything behind.
func Main(m *testing.M) {
	if os.Getenv(agentEnv) != "" {
		os.Unsetenv(agentEnv)
		os.Exit(agentMain(os.Args[1:]))
	}
	os.Exit(Guarded{m}.Run())
}

// Guarded runs a package's tests and fails if they leave anything behind. A TestMain that
// does more than Main uses it.
type Guarded struct{ M *testing.M }

// Run isolates the tests from what started them, runs them, and returns the
// program's exit code.
func (g Guarded) Run() int {
	isolate.Process()
	before := takeProbe()
	code := g.M.Run()
	if left := before.compare(); left != "" {
		fmt.Fprintf(os.Stderr, "the tests left behind:\n%s", left)
		return max(code, 1)
	}
	return code
}

// Agent returns a Launcher of agents that are processes of this test program, each
// connected by a pipe.
func Agent(t testing.TB) sandbox.Launcher {
	return &launch.Process{Agent: selfAgent, Workspaces: filepath.Join(t.TempDir(), "workspaces")}
}

func selfAgent(context.Context) (*exec.Cmd, func(), error) {
	cmd := exec.Command("/proc/self/exe", "serve", "--stdio")
	cmd.Env = append(os.Environ(), agentEnv+"=1")
	return cmd, func() {}, nil
}
