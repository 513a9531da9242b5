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
	kills    = flag.Int("kills", weekly.Or(10, 100), "how often TestPersistentCommandOutlivesKilledServers kills the server")
	killSeed = flag.Uint64("killseed", rand.Uint64(), "the seed for the moments of the kills")
)

// TestPersistentCommandOutlivesKilledServers kills the server with SIGKILL at random
// moments while clients work. Everything in their boxes ends without help. A persistent
// box and its command go on, and each next server reattaches to them.
func TestPersistentCommandOutlivesKilledServers(t *testing.T) {
	t.Logf("-killseed %d", *killSeed)
	s := &soak{service: newService(t, soakSettings), rand: rand.New(rand.NewPCG(*killSeed, 2)), begun: time.Now()}
	s.open()
	owner := newClient(s.service, &tally{}, *killSeed, clients)
	k := s.persist(owner)
	var all []*client
	for i := range clients / 4 {
		all = append(all, newClient(s.service, &s.tally, *killSeed, i))
	}
	stop := s.busy(all)
	for range *kills {
		<-time.After(time.Duration(s.rand.IntN(3000)) * time.Millisecond)
		s.end(syscall.SIGKILL)
		s.await("the boxes of clients have ended", func() bool { return s.running() == 1 })
		s.open()
		k.reattached()
	}
	stop()
	t.Logf("answers: %v", &s.tally)
	k.finish()
	for _, v := range append(all, owner) {
		v.drop()
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	s.nothing()
}

// running returns the number of containers that run.
func (s *service) running() int {
	out, err := s.docker("ps", "-q")
	if err != nil {
		s.Fatal(err)
	}
	return len(strings.Fields(out))
}

// sweep removes what killed servers left, as a user can.
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

// A persistentBox outlives servers, with a command in it that counts.
type persistentBox struct {
	*client
	box, run, log string
}

func (s *soak) persist(v *client) *persistentBox {
	s.Helper()
	k := &persistentBox{client: v}
	k.box = k.must("start", map[string]any{"name": "kept", "keep": true}).text("id")
	a := k.must("exec", map[string]any{"containerId": k.box, "background": true,
		"cmd": "i=0; until [ -e /tmp/stop ]; do i=$((i+1)); echo line $i; sleep 0.02; done"})
	k.run, k.log = a.text("execId"), a.text("logPath")
	return k
}

// must calls a tool, which must not fail.
func (k *persistentBox) must(tool string, args map[string]any) answer {
	k.Helper()
	a := k.call(k.Context(), tool, args)
	if a == nil {
		k.Fatalf("%s %v: %v\n%s", tool, args, k.tally, k.tail())
	}
	return a
}

// reattached checks that a server which has just started has the box and its command.
func (k *persistentBox) reattached() {
	k.Helper()
	k.drop()
	a := k.must("start", map[string]any{"name": "kept", "keep": true})
	k.expect(a, map[string]any{"id": k.box, "reused": true})
	k.expect(k.must("logs", map[string]any{"execId": k.run, "tail": 1}), map[string]any{"status": "running"})
}

// finish ends the command and checks that its log has every line.
func (k *persistentBox) finish() {
	k.Helper()
	k.must("exec", map[string]any{"containerId": k.box, "cmd": "touch /tmp/stop"})
	k.expect(k.must("logs", map[string]any{"execId": k.run, "waitSeconds": 30, "grep": "^never$"}), map[string]any{"status": "exited", "exitCode": 0})
	k.Logf("the command in the persistent box printed %d lines", k.lines())
	k.must("stop", map[string]any{"containerId": k.box})
}

// lines returns the number of lines in the command's log, which must be each once and
// in order.
func (k *persistentBox) lines() int {
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
