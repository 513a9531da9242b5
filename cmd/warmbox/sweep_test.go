package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

var (
	kills    = flag.Int("kills", weekly.Or(10, 100), "how often TestSweepRemovesWhatKilledProgramsLeft and TestPersistentBoxOutlivesKilledServers kill the program")
	killSeed = flag.Uint64("killseed", rand.Uint64(), "the seed for the moments of the kills")
)

// TestSweepRemovesWhatKilledProgramsLeft kills the program at random moments of the
// start of a box, when it leaves what does not end by itself, and checks that a sweep
// removes all of it.
func TestSweepRemovesWhatKilledProgramsLeft(t *testing.T) {
	needDocker(t)
	h := newHome(t)
	t.Logf("-killseed %d", *killSeed)
	random := rand.New(rand.NewPCG(*killSeed, 0))
	var filters []string
	for i := range *kills {
		cmd := h.warmbox(t, "exec", "--", "sleep 1000")
		if i%3 == 0 { // it has to learn again how to reach boxes of this engine
			cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+h.mkdir(t, fmt.Sprint("cache", i)))
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(random.IntN(800))*time.Millisecond, func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		filters = append(filters, "--filter", fmt.Sprintf("label=dev.warmbox.server-pid=%d", cmd.Process.Pid))
	}
	// For a moment the engine goes on to make what the programs asked for.
	soon(t, "a sweep leaves nothing", func() bool {
		out, err := h.warmbox(t, "sweep").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		left := leftOver(t, filters, filepath.Join(h.dir, "run", "warmbox", "*"), filepath.Join(h.state(), "warmbox", "boxes", "instances", "*"))
		t.Logf("%sleft: %s", out, left)
		return left == ""
	})
}

// leftOver returns the containers that have one of the labels, and the files that match
// the patterns.
func leftOver(t *testing.T, filters []string, patterns ...string) string {
	t.Helper()
	var left []string
	for i := 0; i < len(filters); i += 2 { // the engine would want a container to have all labels
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
