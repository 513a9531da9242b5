package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

var (
	kills    = flag.Int("kills", weekly.Or(10, 100), "how often TestSweepAfterKills kills the program")
	killSeed = flag.Uint64("killseed", rand.Uint64(), "what it draws the moments from")
)

// TestSweepAfterKills kills the program at any moment of a box's start, when it
// has left things that do not end by themselves, and sees that a sweep finds them.
func TestSweepAfterKills(t *testing.T) {
	if ok, err := has("docker"); err != nil || !ok {
		t.Skipf("no engine with the default image: %v", err)
	}
	run, err := os.MkdirTemp("/tmp", "wb") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(run)
	state := t.TempDir()
	env := append(os.Environ(), "XDG_STATE_HOME="+state, "XDG_RUNTIME_DIR="+run, "WARMBOX_CONFIG="+os.DevNull)
	t.Logf("-killseed %d", *killSeed)
	random := rand.New(rand.NewPCG(*killSeed, 0))
	var filters []string
	knows := t.TempDir()
	for i := range *kills {
		cache := knows
		if i%3 == 0 {
			cache = t.TempDir() // it has all to learn again
		}
		cmd := exec.Command("warmbox", "exec", "--", "sleep 1000")
		cmd.Env = append(env, "XDG_CACHE_HOME="+cache)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(random.IntN(800))*time.Millisecond, func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		filters = append(filters, "--filter", fmt.Sprintf("label=dev.warmbox.server-pid=%d", cmd.Process.Pid))
	}
	// An engine goes on for a moment with what it was told to make.
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		sweep := exec.Command("warmbox", "sweep")
		sweep.Env = env
		out, err := sweep.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("%s", out)
		left := leftOver(t, filters, filepath.Join(run, "warmbox", "*"), filepath.Join(state, "warmbox", "boxes", "instances", "*"))
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("there is still %s", left)
		}
	}
}

// leftOver returns the containers that have one of the labels, and what matches
// the patterns.
func leftOver(t *testing.T, filters []string, patterns ...string) string {
	t.Helper()
	var left []string
	for i := 0; i < len(filters); i += 2 { // of several labels the engine wants all
		out, err := exec.Command("docker", "ps", "-aq", filters[i], filters[i+1]).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		left = append(left, strings.Fields(string(out))...)
	}
	for _, pattern := range patterns {
		files, _ := filepath.Glob(pattern)
		left = append(left, files...)
	}
	return strings.Join(left, " ")
}
