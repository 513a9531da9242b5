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
	testscript.Main(boxtest.Guarded{M: m}, map[string]func(){
		"warmbox":       main,
		"warmbox-bench": func() { cli.Main(command.Program()) },
	})
}

// TestScripts runs the program itself, in sessions as a user has them. UPDATE=1
// writes what it printed into those that compare it.
func TestScripts(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the sessions need a Unix shell")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
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

// setup gives a session a user without a past: no settings, no engine but one
// that never answers, and a home of its own.
func setup(e *testscript.Env) error {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		return err
	}
	e.Defer(func() { silent.Close() })
	e.Values[clientKey{}] = new(*mcp.ClientSession)
	e.Defer(func() { sweepKept(filepath.Join(e.WorkDir, "home", "state")) })
	e.Setenv("SILENT", "tcp://"+silent.Addr().String())
	e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
	e.Setenv("WARMBOX_POOL_WARM", "0") // a session that wants boxes to stand ready says so
	return os.Mkdir(e.Getenv("HOME"), 0o700)
}

// sweepKept removes the boxes that a session left to a later server, before the
// directory goes that says where they are.
func sweepKept(state string) {
	if kept, _ := filepath.Glob(filepath.Join(state, "warmbox", "boxes", "kept", "*", "*.lock")); len(kept) == 0 {
		return
	}
	sweep(state).Run() // what it cannot remove the probe finds
}

// sweep returns the command that removes all boxes of those who have this state.
func sweep(state string) *exec.Cmd {
	cmd := exec.Command("warmbox", "sweep", "--all")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "WARMBOX_CONFIG="+os.DevNull)
	return cmd
}

// has tells what the machine has. What WARMBOX_REQUIRE names it must have.
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
	case "root":
		return os.Getuid() == 0, nil
	default:
		return false, fmt.Errorf("unknown condition %q", what)
	}
	if err != nil && strings.Contains(os.Getenv("WARMBOX_REQUIRE"), what) {
		return false, fmt.Errorf("WARMBOX_REQUIRE wants %s: %w", what, err)
	}
	return err == nil, nil
}

// patience is how long a session waits for what takes no time.
const patience = 30 * time.Second

// await FILE REGEXP returns when the file has a match, and puts its first group
// into the variable MATCH.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE REGEXP")
	}
	want := regexp.MustCompile(args[1])
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
			ts.Fatalf("%s has no match for %s after %v (%v):\n%s", args[0], args[1], patience, err, text)
		}
	}
}

// signal NAME sends it to what runs in the background.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP}
	if neg || len(args) != 1 || signals[args[0]] == nil {
		ts.Fatalf("usage: signal TERM|INT|HUP")
	}
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(signals[args[0]]))
	}
}
