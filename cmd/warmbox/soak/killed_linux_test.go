package soak

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

var (
	kills    = flag.Int("kills", weekly.Or(10, 100), "how often TestKilledAtWork kills the server")
	killSeed = flag.Uint64("killseed", rand.Uint64(), "what it draws the moments from")
)

// TestKilledAtWork kills the server with -9 at any moment, again and again, while
// clients are at work. All that runs in boxes ends without anybody's doing, but what
// runs in a kept one; that one each next server has, with the same command in it.
func TestKilledAtWork(t *testing.T) {
	t.Logf("-killseed %d", *killSeed)
	s := &soak{service: newService(t, soakSettings), rand: rand.New(rand.NewPCG(*killSeed, 2)), begun: time.Now()}
	s.open()
	keeper := newVisitor(s.service, &tally{}, *killSeed, visitors)
	k := s.keep(keeper)
	var all []*visitor
	for i := range visitors / 4 {
		all = append(all, newVisitor(s.service, &s.tally, *killSeed, i))
	}
	stop := s.busy(all)
	for range *kills {
		<-time.After(time.Duration(s.rand.IntN(3000)) * time.Millisecond)
		s.end(syscall.SIGKILL)
		s.await("what ran in boxes has ended", func() bool { return s.running() == 1 })
		s.open()
		k.isBack()
	}
	stop()
	t.Logf("answers: %v", &s.tally)
	k.finish()
	for _, v := range append(all, keeper) {
		v.drop()
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	s.nothing()
}

// running counts the containers that run.
func (s *service) running() int {
	out, err := s.docker("ps", "-q")
	if err != nil {
		s.Fatal(err)
	}
	return len(strings.Fields(out))
}

// sweep does what a user can do about what killed servers left.
func (s *service) sweep() {
	s.Helper()
	cmd := exec.Command(program, "sweep", "--docker-host", s.engine.Host)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Errorf("%v: %s", err, out)
	}
	s.Logf("%s", bytes.TrimSpace(out))
}

// A kept is a box that outlives servers, with a command in it that counts.
type kept struct {
	*visitor
	box, run, log string
}

func (s *soak) keep(v *visitor) *kept {
	s.Helper()
	k := &kept{visitor: v}
	k.box = k.must("start", map[string]any{"name": "kept", "keep": true}).text("id")
	a := k.must("exec", map[string]any{"containerId": k.box, "background": true,
		"cmd": "i=0; until [ -e /tmp/stop ]; do i=$((i+1)); echo line $i; sleep 0.02; done"})
	k.run, k.log = a.text("execId"), a.text("logPath")
	return k
}

// must calls a tool that nothing keeps from its work.
func (k *kept) must(tool string, args map[string]any) answer {
	k.Helper()
	a := k.call(k.Context(), tool, args)
	if a == nil {
		k.Fatalf("%s %v: %v\n%s", tool, args, k.tally, k.tail())
	}
	return a
}

// isBack sees that a server that has just begun has the box and what runs in it.
func (k *kept) isBack() {
	k.Helper()
	k.drop()
	a := k.must("start", map[string]any{"name": "kept", "keep": true})
	k.expect(a, map[string]any{"id": k.box, "reused": true})
	k.expect(k.must("logs", map[string]any{"execId": k.run, "tail": 1}), map[string]any{"status": "running"})
}

// finish ends the command and sees that its log has every line.
func (k *kept) finish() {
	k.Helper()
	k.must("exec", map[string]any{"containerId": k.box, "cmd": "touch /tmp/stop"})
	k.expect(k.must("logs", map[string]any{"execId": k.run, "waitSeconds": 30, "grep": "^never$"}), map[string]any{"status": "exited", "exitCode": 0})
	k.Logf("the command in the kept box printed %d lines, and its log has them", k.lines())
	k.must("stop", map[string]any{"containerId": k.box})
}

// lines counts what the command's log has: every line once, and in order.
func (k *kept) lines() int {
	k.Helper()
	got, err := os.ReadFile(k.log)
	if err != nil {
		k.Fatal(err)
	}
	count := strings.Count(string(got), "\n")
	var want strings.Builder
	for i := range count {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	if want.String() != string(got) {
		k.Errorf("%s does not have each line once and in order", k.log)
	}
	return count
}
