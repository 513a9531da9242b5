package soak

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

var (
	soakTime = flag.Duration("soak", weekly.Or(2*time.Minute, 10*time.Minute), "how long TestSoak runs")
	soakSeed = flag.Uint64("soakseed", rand.Uint64(), "the seed for the faults and their moments")
)

// soakSettings limit what many clients do at once to what a small machine can do.
const soakSettings = `
max_boxes = 24
on_full = "evict"
[pool]
warm = 2
[exec]
pids = 64
cpu = 0.5
memory = "256m"
[log]
level = "warn"
max_total = "200m"
[http]
max_rate = 1000
`

const clients = 16

// A soak is a service with many clients and one fault after the other.
type soak struct {
	*service
	rand   *rand.Rand
	tally  tally // of the clients
	faults tally
	canary *client
	quiet  sync.RWMutex // a client holds it to read while it acts; locked, no client acts
	deck   []fault
	begun  time.Time
	steady []sample
}

// TestSoak runs sixteen clients for minutes while it kills containers and agents, hangs,
// crashes and restarts the engine, and replaces the server. Each answer must be right or
// a promised error, the service must recover without help, the server must not grow, and
// in the end nothing may be left.
func TestSoak(t *testing.T) {
	t.Logf("-soakseed %d", *soakSeed)
	s := &soak{service: newService(t, soakSettings), rand: rand.New(rand.NewPCG(*soakSeed, 0))}
	s.canary = newClient(s.service, &tally{}, *soakSeed, clients)
	s.open()
	s.begun = time.Now()

	var all []*client
	for i := range clients {
		all = append(all, newClient(s.service, &s.tally, *soakSeed, i))
	}
	s.quarters(all)
	s.closing(append(all, s.canary))
	t.Logf("answers: %v", &s.tally)
	t.Logf("faults: %v", &s.faults)
	s.flat()
}

// quarters runs the clients and injects faults for the time of the soak. After the first
// quarter it replaces the server. After each later quarter it samples that server.
func (s *soak) quarters(all []*client) {
	defer s.busy(all)()
	for quarter := range 4 {
		s.inject(s.begun.Add(*soakTime * time.Duration(quarter+1) / 4))
		if s.Failed() {
			return
		}
		s.quiet.Lock()
		if quarter == 0 {
			s.replace()
		} else {
			s.steady = append(s.steady, s.sample())
		}
		s.quiet.Unlock()
	}
}

// busy runs clients until stop is called.
func (s *soak) busy(all []*client) (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var working sync.WaitGroup
	for _, v := range all {
		working.Go(func() { s.work(ctx, v) })
	}
	return func() {
		cancel()
		working.Wait()
	}
}

// work has a client act, with pauses as if it read the answers.
func (s *soak) work(ctx context.Context, v *client) {
	list := acts()
	for {
		s.quiet.RLock()
		if ctx.Err() == nil {
			v.act(s.Context(), list)
		}
		s.quiet.RUnlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(100+v.rand.IntN(500)) * time.Millisecond):
		}
	}
}

// A fault is over when do returns.
type fault struct {
	name  string
	do    func(*soak)
	often int // in a deck
}

func faults() []fault {
	return []fault{
		{"container killed", (*soak).killContainer, 4},
		{"agent killed", (*soak).killAgent, 4},
		{"engine hung", (*soak).hang, 1},
		{"engine restarted", func(s *soak) { s.engine.Restart() }, 1},
		{"engine crashed", (*soak).crash, 1},
	}
}

// draw returns the next fault. It draws every fault of the deck before it shuffles the
// deck again.
func (s *soak) draw() fault {
	if len(s.deck) == 0 {
		for _, f := range faults() {
			for range f.often {
				s.deck = append(s.deck, f)
			}
		}
		s.rand.Shuffle(len(s.deck), func(i, k int) { s.deck[i], s.deck[k] = s.deck[k], s.deck[i] })
	}
	f := s.deck[0]
	s.deck = s.deck[1:]
	return f
}

// inject injects one fault after the other until a time. After each of them the service
// must recover without help.
func (s *soak) inject(until time.Time) {
	for time.Now().Before(until) && !s.Failed() {
		<-time.After(time.Duration(500+s.rand.IntN(1500)) * time.Millisecond)
		f, at := s.draw(), time.Now()
		f.do(s)
		over := time.Now()
		s.await("service recovers after: "+f.name, func() bool { return s.canary.says(s.Context(), "") })
		s.faults.add(f.name)
		s.Logf("%v in: %s, in %v; service recovered after %v", at.Sub(s.begun).Round(time.Millisecond), f.name, over.Sub(at), time.Since(over))
	}
}

// anyContainer returns a container that runs, or "".
func (s *soak) anyContainer() string {
	out, err := s.docker("ps", "-q", "--no-trunc")
	if err != nil {
		s.Fatal(err)
	}
	list := strings.Fields(out)
	if len(list) == 0 {
		return ""
	}
	return list[s.rand.IntN(len(list))]
}

func (s *soak) killContainer() {
	if id := s.anyContainer(); id != "" {
		s.docker("kill", id) // the container may have ended
	}
}

// killAgent kills an agent from the host. From within its box nothing can.
func (s *soak) killAgent() {
	out, err := s.docker("inspect", "--format", "{{.State.Pid}}", s.anyContainer())
	pid, _ := strconv.Atoi(strings.TrimSpace(out))
	if err == nil && pid > 1 {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// hang has the engine accept connections and not answer.
func (s *soak) hang() {
	s.engine.Pause()
	defer s.engine.Resume()
	<-time.After(time.Duration(2+s.rand.IntN(5)) * time.Second)
}

func (s *soak) crash() {
	s.engine.Kill()
	<-time.After(time.Duration(s.rand.IntN(2000)) * time.Millisecond)
	s.engine.Restart()
}

// replace ends the server in order and starts another one.
func (s *soak) replace() {
	if err := s.end(syscall.SIGTERM); err != nil {
		s.Errorf("the server ended with %v\n%s", err, s.tail())
	}
	s.open()
	s.faults.add("server replaced")
}

// closing checks that every client is served after the faults, and that nothing is left.
func (s *soak) closing(all []*client) {
	for _, v := range all {
		s.await(v.name+" has been told that its box is gone", func() bool { return v.says(s.Context(), "") })
		for range 3 {
			if !v.says(s.Context(), "") {
				s.Errorf("%s is not served after the faults\n%s", v.name, s.tail())
			}
		}
		v.drop()
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		s.Errorf("the server ended with %v\n%s", err, s.tail())
	}
	s.nothing()
}

// A sample is what the server holds while no client calls.
type sample struct{ memory, files, goroutines float64 }

func (s sample) String() string {
	return fmt.Sprintf("%.1f MB, %v files, %v goroutines", s.memory/1e6, s.files, s.goroutines)
}

func (s *soak) sample() sample {
	return sample{s.metric("process_resident_memory_bytes"), s.metric("process_open_fds"), s.metric("go_goroutines")}
}

// flat checks that the server did not grow between the first sample and the last. What
// it holds varies with the number of boxes, which is limited, and with the collector.
// What grows with each call or fault, of which there are thousands, exceeds that.
func (s *soak) flat() {
	for i, at := range s.steady {
		s.Logf("after quarter %d the server holds %v", i+2, at)
	}
	if len(s.steady) < 2 {
		return
	}
	first, last := s.steady[0], s.steady[len(s.steady)-1]
	const boxes = 24 * 8 // descriptors and goroutines
	if last.memory > 1.3*first.memory+32e6 || last.files > first.files+boxes || last.goroutines > first.goroutines+boxes {
		s.Errorf("the server has grown")
	}
}
