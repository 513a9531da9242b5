// Package boxtest says what a box does, once, for every backend: Run checks a
// Launcher against it. It also has the agent as a Launcher of its own, a real
// agent in a process of its own over a pipe, and the probe that tells whether
// a test left anything behind.
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
	"github.com/warmbox/warmbox/sandbox/launch"
)

// agentEnv makes a test program an agent.
const agentEnv = "WARMBOX_TEST_AGENT"

// Main runs a package's tests, and the agent where the test program was started
// as one. It fails where the tests leave something of ours behind.
func Main(m *testing.M) {
	if os.Getenv(agentEnv) != "" {
		os.Unsetenv(agentEnv)
		os.Exit(agentMain(os.Args[1:]))
	}
	os.Exit(Guarded{m}.Run())
}

// Guarded is a package's tests, which fail where they leave something of ours
// behind: for a TestMain that has to do more than Main does.
type Guarded struct{ M *testing.M }

// Run runs the tests and returns the program's exit code.
func (g Guarded) Run() int {
	before := look()
	code := g.M.Run()
	if left := before.compare(); left != "" {
		fmt.Fprintf(os.Stderr, "the tests left behind:\n%s", left)
		return max(code, 1)
	}
	return code
}

// Agent returns a Launcher of agents that are this very test program, each in
// a process of its own over a pipe.
func Agent(t testing.TB) sandbox.Launcher {
	return &launch.Process{Agent: selfAgent, Workspaces: filepath.Join(t.TempDir(), "workspaces")}
}

func selfAgent(context.Context) (*exec.Cmd, func(), error) {
	cmd := exec.Command("/proc/self/exe", "serve", "--stdio")
	cmd.Env = append(os.Environ(), agentEnv+"=1")
	return cmd, func() {}, nil
}
