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
	soakTime = flag.Duration("soak", weekly.Or(2*time.Minute, 10*time.Minute), "how long TestSoak goes on")
	soakSeed = flag.Uint64("soakseed", rand.Uint64(), "what it chooses by what goes wrong, and when")
)

// soakSettings keep what many clients do at once within what a small machine has.
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

const visitors = 16

// A soak is many visitors of a service on which one thing after the other goes
// wrong.
type soak struct {
	*service
	rand   *rand.Rand
	tally  tally // of the visitors
	faults tally
	canary *visitor
	lull   sync.RWMutex // held by who visits; whoever wants it quiet holds it alone
	deck   []fault
	begun  time.Time
	steady []sample
}

// TestSoak has sixteen clients work for minutes while containers and agents are
// killed, the engine hangs, crashes and restarts, and the server is replaced. Each
// answer must be right or one that is promised, what was broken must come back by
// itself, the server must not grow, and in the end nothing may be left.
func TestSoak(t *testing.T) {
	t.Logf("-soakseed %d", *soakSeed)
	s := &soak{service: newService(t, soakSettings), rand: rand.New(rand.NewPCG(*soakSeed, 0))}
	s.canary = newVisitor(s.service, &tally{}, *soakSeed, visitors)
	s.open()
	s.begun = time.Now()

	var all []*visitor
	for i := range visitors {
		all = append(all, newVisitor(s.service, &s.tally, *soakSeed, i))
	}
	s.quarters(all)
	s.closing(append(all, s.canary))
	t.Logf("answers: %v", &s.tally)
	t.Logf("faults: %v", &s.faults)
	s.flat()
}

// quarters has the visitors work, and what goes wrong go wrong, for the time of the
// soak. After the first quarter another server takes over; from then on it is the
// same, and at the end of each quarter it is looked at.
func (s *soak) quarters(all []*visitor) {
	defer s.busy(all)()
	for quarter := range 4 {
		s.goWrong(s.begun.Add(*soakTime * time.Duration(quarter+1) / 4))
		if s.Failed() {
			return
		}
		s.lull.Lock()
		if quarter == 0 {
			s.replace()
		} else {
			s.steady = append(s.steady, s.sample())
		}
		s.lull.Unlock()
	}
}

// busy has visitors at work until they are told to stop.
func (s *soak) busy(all []*visitor) (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var working sync.WaitGroup
	for _, v := range all {
		working.Go(func() { s.visit(ctx, v) })
	}
	return func() {
		cancel()
		working.Wait()
	}
}

// visit has a visitor act, at the pace of somebody who reads what came.
func (s *soak) visit(ctx context.Context, v *visitor) {
	list := acts()
	for {
		s.lull.RLock()
		if ctx.Err() == nil {
			v.act(s.Context(), list)
		}
		s.lull.RUnlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(100+v.rand.IntN(500)) * time.Millisecond):
		}
	}
}

// A fault is something that goes wrong, and is over when it returns.
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

// draw returns what goes wrong next. All that can has done so before any of it does
// more often than it should.
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

// goWrong has one thing after the other go wrong until then. After each of them the
// service must come back by itself.
func (s *soak) goWrong(until time.Time) {
	for time.Now().Before(until) && !s.Failed() {
		<-time.After(time.Duration(500+s.rand.IntN(1500)) * time.Millisecond)
		f, at := s.draw(), time.Now()
		f.do(s)
		over := time.Now()
		s.await("service is back after: "+f.name, func() bool { return s.canary.says(s.Context(), "") })
		s.faults.add(f.name)
		s.Logf("%v in: %s, in %v; service is back after %v", at.Sub(s.begun).Round(time.Millisecond), f.name, over.Sub(at), time.Since(over))
	}
}

// anyContainer returns one of those that run, "" where there is none.
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
		s.docker("kill", id) // which may be gone by now
	}
}

// killAgent kills one from the host: in its box nobody could.
func (s *soak) killAgent() {
	out, err := s.docker("inspect", "--format", "{{.State.Pid}}", s.anyContainer())
	pid, _ := strconv.Atoi(strings.TrimSpace(out))
	if err == nil && pid > 1 {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// hang has the engine take connections and not answer.
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

// replace ends the server in its own way and starts another one.
func (s *soak) replace() {
	if err := s.end(syscall.SIGTERM); err != nil {
		s.Errorf("the server ended with %v\n%s", err, s.tail())
	}
	s.open()
	s.faults.add("server replaced")
}

// closing sees that all works as if nothing had been, and that nothing is left of
// it.
func (s *soak) closing(all []*visitor) {
	for _, v := range all {
		s.await(v.name+" knows what became of its box", func() bool { return v.says(s.Context(), "") })
		for range 3 {
			if !v.says(s.Context(), "") {
				s.Errorf("%s is not served though nothing is wrong any more\n%s", v.name, s.tail())
			}
		}
		v.drop()
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		s.Errorf("the server ended with %v\n%s", err, s.tail())
	}
	s.nothing()
}

// A sample is what the server holds while nobody calls.
type sample struct{ memory, files, goroutines float64 }

func (s sample) String() string {
	return fmt.Sprintf("%.1f MB, %v files, %v goroutines", s.memory/1e6, s.files, s.goroutines)
}

func (s *soak) sample() sample {
	return sample{s.metric("process_resident_memory_bytes"), s.metric("process_open_fds"), s.metric("go_goroutines")}
}

// flat sees that the server did not grow from one quarter to the last. What it holds
// goes up and down with the boxes that stand, of which there are at most so many,
// and with a collector that takes its time; what grows with each call or fault, of
// which there are thousands, is more than that.
func (s *soak) flat() {
	for i, at := range s.steady {
		s.Logf("after quarter %d the server has %v", i+2, at)
	}
	if len(s.steady) < 2 {
		return
	}
	first, last := s.steady[0], s.steady[len(s.steady)-1]
	const boxes = 24 * 8 // each has some
	if last.memory > 1.3*first.memory+32e6 || last.files > first.files+boxes || last.goroutines > first.goroutines+boxes {
		s.Errorf("the server has grown")
	}
}
