package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/warmbox/warmbox/bench/command"
	"github.com/warmbox/warmbox/cmd/warmbox/cli"
	"github.com/warmbox/warmbox/sandbox/agentbin"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){
		"warmbox":       main,
		"warmbox-bench": func() { cli.Main(command.Program()) },
	})
}

// suite is the tests, which no setting of the user who runs them reaches.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case !strings.HasPrefix(name, "WARMBOX_"), strings.HasPrefix(name, "WARMBOX_TEST_"):
		case name == "WARMBOX_REQUIRE", name == "WARMBOX_WEEKLY": // are for the tests
		default:
			os.Unsetenv(name)
		}
	}
	if os.Getenv(scriptsEnv) != "" {
		return s.m.Run() // the process that started this one checks what is left behind
	}
	return boxtest.Guarded{M: s.m}.Run()
}

// TestScripts runs the program in sessions as a user has them. UPDATE=1 writes what
// the program printed into the scripts that compare it.
func TestScripts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts need a Unix shell")
	}
	if os.Getuid() == 0 && os.Getenv("UPDATE") == "" {
		scriptsAsOrdinaryUser(t)
		return
	}
	runScripts(t, "testdata")
}

// TestScriptsAsRoot runs the scripts that are about what belongs to root.
func TestScriptsAsRoot(t *testing.T) {
	needRoot(t, "the scripts make directories that belong to root")
	runScripts(t, "testdata/root")
}

func runScripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setup,
		Condition:           has,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":   await,
			"signal":  sendSignal,
			"connect": connectClient,
			"call":    callTool,
		},
	})
}

// scriptsEnv marks a test process that runs one script.
const scriptsEnv = "WARMBOX_TEST_SCRIPTS"

// scriptsAsOrdinaryUser runs each script in a test process of the ordinary user, who
// then owns all the files of the session, whatever made them.
func scriptsAsOrdinaryUser(t *testing.T) {
	h := newHome(t)
	if err := errors.Join(os.CopyFS(filepath.Join(h.dir, "testdata"), os.DirFS("testdata")), h.own(h.dir)); err != nil {
		t.Fatal(err)
	}
	// A copy of the user's own, since testscript links to it, which the kernel does
	// not let a user do with a file of root's.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	tests := h.write(t, "scripts.test", string(text))
	if err := errors.Join(err, os.Chmod(tests, 0o700)); err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	for _, script := range scripts {
		name := strings.TrimSuffix(filepath.Base(script), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := h.command(t, tests, "-test.v", "-test.run", "^TestScripts$/^"+name+"$")
			if deadline, ok := t.Deadline(); ok {
				const margin = 5 * time.Second // to say here which script it was
				cmd.Args = append(cmd.Args, fmt.Sprintf("-test.timeout=%v", max(time.Second, time.Until(deadline)-margin)))
			}
			cmd.Env = append(cmd.Env, scriptsEnv+"=1")
			out, err := cmd.CombinedOutput()
			switch {
			case err != nil || !strings.Contains(string(out), ": TestScripts/"+name+" ("): // or no script has the name
				t.Errorf("%v\n%s", err, out)
			case strings.Contains(string(out), "--- SKIP: TestScripts/"+name+" ("):
				t.Skipf("%s", out)
			}
		})
	}
}

// setup gives a session a user without a past: no settings, no engine but one that
// never answers, and a home of its own.
func setup(e *testscript.Env) error {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nothing accepts
	if err != nil {
		return err
	}
	e.Defer(func() { silent.Close() })
	e.Values[clientKey{}] = new(*mcp.ClientSession)
	e.Defer(func() { sweepPersistent(filepath.Join(e.WorkDir, "home", "state")) })
	e.Setenv("SILENT", "tcp://"+silent.Addr().String())
	e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
	e.Setenv("WARMBOX_POOL_WARM", "0") // a session that wants idle boxes says so
	return os.Mkdir(e.Getenv("HOME"), 0o700)
}

// sweepPersistent removes the persistent boxes that a session leaves, before the
// directory is removed that says where they are.
func sweepPersistent(state string) {
	if locks, _ := filepath.Glob(filepath.Join(state, "warmbox", "boxes", "kept", "*", "*.lock")); len(locks) == 0 {
		return
	}
	cmd := exec.Command("warmbox", "sweep", "--all")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "WARMBOX_CONFIG="+os.DevNull)
	cmd.Run() // boxtest reports what it cannot remove
}

// has reports whether the machine has something that some tests need. It fails if it
// is missing and WARMBOX_REQUIRE names it.
func has(what string) (bool, error) {
	var err error
	switch what {
	case "docker":
		err = exec.Command("docker", "image", "inspect", "warmbox/sandbox:slim").Run()
	case "agent":
		_, err = agentbin.For(runtime.GOARCH)
		if err == nil && runtime.GOOS != "linux" {
			err = errors.New("the process backend needs Linux")
		}
	case "python3":
		_, err = exec.LookPath("python3")
	case "root":
		return os.Getuid() == 0, nil
	default:
		return false, fmt.Errorf("unknown condition %q", what)
	}
	if err != nil && strings.Contains(os.Getenv("WARMBOX_REQUIRE"), what) {
		return false, fmt.Errorf("WARMBOX_REQUIRE names %s: %w", what, err)
	}
	return err == nil, nil
}

// await FILE REGEXP returns when the file has a match, and puts the match's last
// group into the variable MATCH.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE REGEXP")
	}
	want := regexp.MustCompile(args[1])
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if match := want.FindSubmatch(text); match != nil {
			ts.Setenv("MATCH", string(match[len(match)-1]))
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("%s has no match for %s after %v (%v):\n%s", args[0], args[1], waitLimit, err, text)
		}
	}
}

// signal NAME sends a signal to each command in the background.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}
	if neg || len(args) != 1 || signals[args[0]] == nil {
		ts.Fatalf("usage: signal TERM|INT|HUP")
	}
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(signals[args[0]]))
	}
}
