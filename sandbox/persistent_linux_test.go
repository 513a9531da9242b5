package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A site is where a persistent box runs: its agent, in a process of its own, dials one
// server after the other.
type site struct {
	t     testing.TB
	path  string
	dir   string
	logs  *rawlog.Store
	agent *os.Process
	kept  Detached
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, path: filepath.Join(t.TempDir(), "s"), dir: t.TempDir(), logs: &rawlog.Store{Dir: t.TempDir(), MaxRun: 1 << 30}}
	s.kept = Detached{ID: "b-test", Started: time.Now(), Persistent: Persistent{Name: "dev", Principal: "me", ReattachTimeout: time.Minute}}
	cmd := exec.Command("/proc/self/exe", "serve", "--dial", s.path)
	cmd.Env = append(os.Environ(), "WARMBOX_TEST_AGENT=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.agent = cmd.Process
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	return s
}

// stream waits for the agent to dial.
func (s *site) stream() *siteStream {
	s.t.Helper()
	os.Remove(s.path) // of a server that was killed
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"})
	if err != nil {
		s.t.Fatal(err)
	}
	defer socket.Close()
	socket.SetDeadline(time.Now().Add(time.Minute))
	conn, err := socket.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	return &siteStream{Conn: conn, site: s}
}

// siteStream ends the box unless it was detached before.
type siteStream struct {
	net.Conn
	site *site
	once sync.Once
}

func (s *siteStream) Place() Place {
	return Place{Workspace: s.site.dir, Dir: s.site.dir, Env: []string{"PATH=" + os.Getenv("PATH")}}
}

func (s *siteStream) Detach() error {
	s.once.Do(func() { s.Conn.Close() })
	return nil
}

func (s *siteStream) Close() error {
	s.once.Do(func() {
		s.site.agent.Signal(os.Interrupt)
		s.Conn.Close()
	})
	return nil
}

func (s *site) open(ctx context.Context) *Box { return s.openAs(ctx, true) }

func (s *site) openAs(ctx context.Context, kept bool) *Box {
	s.t.Helper()
	var spec Spec
	if kept {
		spec.Persistent = &s.kept.Persistent
	}
	who := identity{id: s.kept.ID, owner: Owner{Principal: s.kept.Principal}, started: time.Now()}
	b, err := openBox(ctx, newShared(s.logs), who, s.stream(), spec)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// resume is a later program, which knows nothing of the box.
func (s *site) resume(ctx context.Context) (*Box, error) {
	return resumeBox(ctx, newShared(s.logs), s.kept, s.stream(), Spec{})
}

// newShared is what the boxes of a Manager share that limits and forbids nothing.
func newShared(logs *rawlog.Store) *shared {
	return &shared{logs: logs, log: slog.New(slog.DiscardHandler), allRuns: newLimiter(DefaultMaxRuns)}
}

func (s *site) mustResume() *Box {
	s.t.Helper()
	b, err := s.resume(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *site) start(b *Box, c Command) *Run {
	s.t.Helper()
	r, err := b.Exec(s.t.Context(), c)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// printed waits until a log has a text.
func (s *site) printed(r *Run, text string) {
	s.t.Helper()
	for timeout := time.After(time.Minute); ; {
		changed := r.changed()
		if strings.Contains(s.logged(r.ID), text) {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			s.t.Fatalf("%q was not printed", text)
		}
	}
}

func (s *site) logged(id string) string {
	s.t.Helper()
	text, err := os.ReadFile(s.logs.Path(id))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *site) over(r *Run) Exit {
	s.t.Helper()
	select {
	case <-r.Over():
	case <-time.After(time.Minute):
		s.t.Fatalf("command %q is not over", r.Command.Cmd)
	}
	return r.Exit()
}

// A later program finds commands of every kind as they were.
func TestReattachResumesCommandsOfEveryKind(t *testing.T) {
	s := newSite(t)
	b := s.open(t.Context())
	s.over(s.start(b, Command{Cmd: "x=1", Shell: "dev"}))
	cat := s.start(b, Command{Cmd: "echo cat; cat; echo end", Interactive: true})
	fed := s.start(b, Command{Cmd: "cat; exec sleep 1000", Stdin: strings.NewReader("fed\n")})
	tty := s.start(b, Command{Cmd: "echo tty; read -r x; stty size; echo got $x", TTY: &Size{Cols: 80, Rows: 24}})
	shell := s.start(b, Command{Cmd: "echo $x; x=2; until [ -e go ]; do sleep 0.01; done; exit 4", Shell: "dev", Timeout: time.Hour})
	late := s.start(b, Command{Cmd: "echo late; exec sleep 1000", Timeout: time.Second})
	left := s.start(b, Command{Cmd: "(until [ -e go ]; do sleep 0.01; done; echo left) & echo up; exit 5"})
	for r, text := range map[*Run]string{cat: "cat\n", fed: "fed\n", tty: "tty\r\n", shell: "1\n", late: "late\n", left: "up\n"} {
		s.printed(r, text)
	}
	<-left.Done()
	if err := b.Detach(); err != nil {
		t.Fatal(err)
	}
	if e := s.over(shell); e.Status != Running {
		t.Errorf("a detached command: %+v", e)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	b = s.mustResume()
	back := func(was *Run) *Run {
		t.Helper()
		r := b.history.open(me, was.ID)
		if r == nil {
			t.Fatalf("%q was not resumed", was.Command.Cmd)
		}
		if r.Command.Cmd != was.Command.Cmd || !r.Started.Equal(was.Started) || r.Command.Timeout != was.Command.Timeout {
			t.Errorf("%q was resumed as %+v", was.Command.Cmd, r.Command)
		}
		return r
	}
	cat, tty, fed, late = back(cat), back(tty), back(fed), back(late)
	if r := b.history.open(me, shell.ID); r != nil {
		shell = r
	}
	if err := errors.Join(cat.Input(t.Context(), []byte("more\n")), cat.CloseInput()); err != nil {
		t.Error(err)
	}
	if err := fed.Input(t.Context(), []byte("x")); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("input of one that has all: %v", err)
	}
	if err := errors.Join(tty.Resize(100, 30), tty.Input(t.Context(), []byte("typed\n"))); err != nil {
		t.Error(err)
	}
	if err := fed.Signal("TERM"); err != nil {
		t.Error(err)
	}
	for r, want := range map[*Run]string{cat: "exited 0 cat\nmore\nend\n", fed: "exited 143 fed\n", late: "timeout 143 late\n"} {
		if e := s.over(r); fmt.Sprintf("%s %d %s", e.Status, e.Code, s.logged(r.ID)) != want {
			t.Errorf("%q: %+v, %q", r.Command.Cmd, e, s.logged(r.ID))
		}
	}
	if s.over(tty); !strings.Contains(s.logged(tty.ID), "30 100\r\ngot typed\r\n") {
		t.Errorf("%q", s.logged(tty.ID))
	}
	next := s.start(b, Command{Cmd: "echo $x", Shell: "dev", WaitLimit: time.Minute})
	if s.over(next); s.logged(next.ID) != "2\n" {
		t.Errorf("the shell has %q", s.logged(next.ID))
	}
	for id, want := range map[string]string{shell.ID: "exited 4 1\n", left.ID: "exited 5 up\nleft\n"} {
		x, err := s.logs.Head(id)
		if err != nil || x.End == nil || fmt.Sprintf("%s %d %s", x.End.Status, x.End.Code, s.logged(id)) != want {
			t.Errorf("%+v, %v, %q; want %q", x.End, err, s.logged(id), want)
		}
	}
	if shell := b.shells.byName["dev"]; b.limiter.used != 0 || shell.used != 0 {
		t.Errorf("%d slots of the box and %d of the shell are used", b.limiter.used, shell.used)
	}
	// What is over is confirmed, and not reported again.
	b.conn.Flush()
	b.Detach()
	b = s.mustResume()
	if runs := b.all(); len(runs) != 0 {
		t.Errorf("%d were resumed once more", len(runs))
	}
	b.Close()
}

// A box is detached while commands begin and end: each that has begun comes to its end in
// its log.
func TestDetachLosesNoCommandThatBegan(t *testing.T) {
	s := newSite(t)
	b := s.open(t.Context())
	var mu sync.Mutex
	var begun []string
	for range 20 {
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				for {
					r, err := b.Exec(t.Context(), Command{Cmd: "echo x; exit 2"})
					if err != nil {
						return
					}
					mu.Lock()
					begun = append(begun, r.ID)
					mu.Unlock()
					<-r.Done()
				}
			})
		}
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
		b.Detach()
		calls.Wait()
		b = s.mustResume()
	}
	for _, r := range b.all() {
		s.over(r)
	}
	b.Close()
	for _, id := range begun {
		x, err := s.logs.Head(id)
		if err != nil || x.End == nil || x.End.Code != 2 || x.Totals == nil || s.logged(id) != "x\n" {
			t.Errorf("%s of %d: %+v, %v", id, len(begun), x, err)
		}
	}
	t.Logf("%d commands", len(begun))
}

// A box whose agent does not answer in time stays detached.
func TestReattachLeavesBoxOfSilentAgent(t *testing.T) {
	host, agent := net.Pipe()
	defer agent.Close()
	go io.Copy(io.Discard, agent)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	stream := &leftStream{Conn: host}
	kept := Detached{ID: "b-test", Persistent: Persistent{Principal: "me", ReattachTimeout: time.Minute}}
	_, err := resumeBox(ctx, newShared(&rawlog.Store{Dir: t.TempDir()}), kept, stream, Spec{})
	if err == nil || stream.closed {
		t.Errorf("%v; ended: %v", err, stream.closed)
	}
}

// A detached command prints more than its agent retains.
func TestOutputBeyondRingIsCountedAsLost(t *testing.T) {
	s := newSite(t)
	b := s.open(t.Context())
	r := s.start(b, Command{Cmd: "echo first; read -r; seq 1000000 3999999; echo last; touch done; exec sleep 1000", Interactive: true})
	s.printed(r, "first\n")
	if err := r.Input(t.Context(), []byte("\n")); err != nil {
		t.Fatal(err)
	}
	b.Detach()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(s.dir, "done")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not run on while detached")
		}
	}
	b = s.mustResume()
	r = b.history.open(me, r.ID)
	s.printed(r, "last\n")
	const bytes, lines = 6 + 8*3000000 + 5, 3000002
	st := r.LogStats()
	if st.Bytes != bytes || st.Lines != lines || st.Lost != st.Bytes-st.Kept || st.Kept < 16<<20 || st.Complete || st.Reason == "" {
		t.Errorf("%+v", st)
	}
	log, err := s.logs.Open(r.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if len(log.Gaps) != 1 || log.Gaps[0].Bytes != st.Lost {
		t.Errorf("%+v", log.Gaps)
	}
	b.Close()
	s.over(r)
}

// serverEnv makes the test program a server of a site, until it is killed.
const serverEnv = "WARMBOX_TEST_SITE"

// TestSiteServer is the server of TestKilledServersLoseNoOutput.
func TestSiteServer(t *testing.T) {
	where := os.Getenv(serverEnv)
	if where == "" {
		t.Skip("a part of another test")
	}
	path, rest, _ := strings.Cut(where, " ")
	logs, cmd, _ := strings.Cut(rest, " ")
	s := &site{t: t, path: path, dir: filepath.Dir(path), logs: &rawlog.Store{Dir: logs, MaxRun: 1 << 30}}
	s.kept = Detached{ID: "b-test", Persistent: Persistent{Name: "dev", Principal: "me", ReattachTimeout: time.Minute}}
	if cmd != "" {
		fmt.Println("run", s.start(s.open(t.Context()), Command{Cmd: cmd, Interactive: true}).ID)
	} else {
		s.mustResume()
		fmt.Println("back")
	}
	io.Copy(io.Discard, os.Stdin)
}

// serve runs a server for a while and kills it. The first one starts a command, and
// lives on until that is known. It reports whether a later one reattached to its box.
func (s *site) serve(cmd string, life time.Duration) (exec string, back bool) {
	s.t.Helper()
	c := execSelf("-test.run=^TestSiteServer$")
	c.Env = append(os.Environ(), serverEnv+"="+strings.Join([]string{s.path, s.logs.Dir, cmd}, " "))
	in, _ := c.StdinPipe()
	defer in.Close()
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if cmd != "" {
		for lines := bufio.NewScanner(out); exec == "" && lines.Scan(); {
			exec, _ = strings.CutPrefix(lines.Text(), "run ")
		}
	}
	time.Sleep(life)
	c.Process.Kill()
	rest, _ := io.ReadAll(out)
	c.Wait()
	return exec, strings.Contains(string(rest), "back\n")
}

func execSelf(args ...string) *exec.Cmd { return exec.Command("/proc/self/exe", args...) }

// killOften kills servers at random points while a command runs, lets it be alone
// until away returns, and then returns what the log tells of it in the end.
func (s *site) killOften(cmd string, rounds int, most time.Duration, away func()) *rawlog.Index {
	s.t.Helper()
	seed := rand.Uint64()
	s.t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s.dir = filepath.Dir(s.path)
	id, _ := s.serve(cmd, 10*time.Millisecond)
	backs := 0
	for range rounds {
		if _, back := s.serve("", time.Duration(random.Int64N(int64(most)))); back {
			backs++
		}
	}
	s.t.Logf("back %d times of %d", backs, rounds)
	away()
	if err := os.WriteFile(filepath.Join(s.dir, "stop"), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
	b := s.mustResume()
	r := b.history.open(me, id)
	if r == nil {
		s.t.Fatalf("%s was not resumed", id)
	}
	if e := s.over(r); e.Code != 6 || e.Status != Exited {
		s.t.Errorf("%+v", e)
	}
	x, err := s.logs.Head(id)
	if err != nil || x.Totals == nil {
		s.t.Fatalf("%+v, %v", x, err)
	}
	b.Close()
	return x
}

// Servers are killed at random points: the log has all that the command printed, once and
// in order.
func TestKilledServersLoseNoOutput(t *testing.T) {
	s := newSite(t)
	x := s.killOften("i=0; until [ -e stop ]; do echo $((i++)); done; exit 6", 20, 400*time.Millisecond, func() {})
	n := 0
	for line := range strings.Lines(s.logged(x.Exec)) {
		if line != fmt.Sprintln(n) {
			t.Fatalf("%q instead of %d", line, n)
		}
		n++
	}
	if !x.Totals.Complete || x.Totals.Lines != int64(n) || len(x.Gaps) > 0 {
		t.Errorf("%+v; %d lines", x.Totals, n)
	}
	t.Logf("%d lines", n)
}

// Servers are killed while more is printed than the agent retains: what the log has is
// right at its place, and what it lacks is counted to the byte.
func TestKilledServersCountLostOutput(t *testing.T) {
	s := newSite(t)
	x := s.killOften("i=10000000; until [ -e stop ]; do seq $i $((i += 199999)); ((i++)); echo $i >last; sleep 0.02; done; exit 6", 6, 600*time.Millisecond, func() {
		for had, deadline := s.lines(), time.Now().Add(time.Minute); 9*(s.lines()-had) < 30<<20; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it does not run on while detached")
			}
		}
	})
	lines := s.lines()
	if x.Totals.Bytes != 9*lines || x.Totals.Lines != lines || x.Totals.Lost != x.Totals.Bytes-x.Totals.Kept {
		t.Errorf("%+v, and %d lines were printed", x.Totals, lines)
	}
	text := s.logged(x.Exec)
	at, off := int64(0), int64(0) // of what was printed, in the log
	var line []byte
	for _, g := range append(x.Gaps, rawlog.Gap{Off: int64(len(text))}) {
		for off < g.Off {
			line = append(strconv.AppendInt(line[:0], 10000000+at/9, 10), '\n')
			part := line[at%9:][:min(9-at%9, g.Off-off)]
			if !strings.HasPrefix(text[off:], string(part)) {
				t.Fatalf("%.20q at %d of the log, byte %d of the output, not %q", text[off:], off, at, part)
			}
			at, off = at+int64(len(part)), off+int64(len(part))
		}
		at += g.Bytes
	}
	if at != x.Totals.Bytes || x.Totals.Lost < 8<<20 {
		t.Errorf("bytes and gaps are %d, not %d; %d were lost", at, x.Totals.Bytes, x.Totals.Lost)
	}
	t.Logf("%d of %d bytes were lost, in %d gaps", x.Totals.Lost, x.Totals.Bytes, len(x.Gaps))
}

// lines is how many lines the flood has printed, of 9 bytes.
func (s *site) lines() int64 {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var n int64
		text, _ := os.ReadFile(filepath.Join(s.dir, "last"))
		if fmt.Sscan(string(text), &n); n > 0 { // else it is just being written
			return n - 10000000
		}
	}
	s.t.Fatal("it does not say how much it has printed")
	return 0
}

// What an agent says of runs from before counts only where a log says so too, and a lie
// costs the box.
func TestReattachBelievesOnlyWhatLogsConfirm(t *testing.T) {
	logs := &rawlog.Store{Dir: t.TempDir()}
	tag := func(m rawlog.Meta, text string, over bool) string {
		m.Exec = NewID("e")
		l := logs.Create(m)
		l.Write(rawlog.Stdout, []byte(text))
		if l.Detach(); over {
			l, err := logs.Reopen(m.Exec)
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
		return m.Exec
	}
	mine := rawlog.Meta{Box: "b-test", Owner: me.mark(), Note: "{}"}
	good := tag(mine, "text", false)
	k := func(id byte, tag string, bytes int) []byte {
		return wire.Append(nil, wire.Known, wire.ID{id}, fmt.Appendf(nil, `{"tag":%q,"bytes":%d}`, tag, bytes))
	}
	for name, c := range map[string]struct {
		runs   int
		frames []byte
		after  []byte
		lie    bool
		back   int
	}{
		"honest":                  {1, k(1, good, 4), nil, false, 1},
		"less than the log":       {1, k(1, good, 3), nil, true, 0},
		"less than nothing":       {1, k(1, good, -1), nil, true, 0},
		"no log":                  {1, k(1, "e-none", 4), nil, false, 0},
		"a path":                  {1, k(1, "../"+good, 4), nil, true, 0},
		"no tag":                  {1, k(1, "", 4), nil, true, 0},
		"two of one tag":          {2, append(k(1, good, 4), k(2, good, 4)...), nil, true, 0},
		"two of one id":           {2, append(k(1, good, 4), k(1, "e-x", 4)...), nil, true, 0},
		"another box":             {1, k(1, tag(rawlog.Meta{Box: "b-other", Owner: me.mark(), Note: "{}"}, "", false), 4), nil, false, 0},
		"another owner":           {1, k(1, tag(rawlog.Meta{Box: "b-test", Owner: you.mark(), Note: "{}"}, "", false), 4), nil, false, 0},
		"not of a persistent box": {1, k(1, tag(rawlog.Meta{Box: "b-test", Owner: me.mark()}, "", false), 4), nil, false, 0},
		"over":                    {1, k(1, tag(mine, "", true), 4), nil, false, 0},
		"too many":                {wire.MaxRuns + 1, nil, nil, true, 0},
		"less than none":          {-1, nil, nil, true, 0},
		"more than it says":       {0, nil, k(1, good, 4), false, 0},
		"something else":          {1, wire.Append(nil, wire.Stdout, wire.ID{1}, []byte("x")), nil, true, 0},
		"dropped nothing":         {1, k(1, good, 4), wire.AppendCounts(nil, wire.Dropped, wire.ID{1}, 4, 0), false, 1},
		"dropped lines only":      {1, k(1, good, 4), wire.AppendCounts(nil, wire.Dropped, wire.ID{1}, 5, 9), false, 1},
		"dropped the world":       {1, k(1, good, 4), wire.AppendCounts(nil, wire.Dropped, wire.ID{1}, 1<<60, 0), false, 1},
		"dropped late": {1, k(1, good, 4), wire.AppendCounts(wire.Append(nil, wire.Stdout, wire.ID{1}, []byte("")),
			wire.Dropped, wire.ID{1}, 9, 0), false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			host, agent := net.Pipe()
			defer agent.Close()
			go func() {
				r := wire.NewReader(agent, wire.FromHost)
				if _, err := r.Read(); err != nil {
					return
				}
				agent.Write(wire.Append(nil, wire.Hello, wire.ID{}, fmt.Appendf(nil, `{"runs":%d}`, c.runs)))
				go agent.Write(append(c.frames, c.after...))
				for {
					if _, err := r.Read(); err != nil {
						return
					}
				}
			}()
			stream := &leftStream{Conn: host}
			kept := Detached{ID: "b-test", Persistent: Persistent{Principal: "me", ReattachTimeout: time.Minute}}
			b, err := resumeBox(t.Context(), newShared(logs), kept, stream, Spec{})
			if (err != nil) != c.lie || errors.Is(err, wire.ErrViolation) != c.lie {
				t.Fatal(err)
			}
			if c.after == nil && c.lie != stream.closed { // else it may have ended already
				t.Fatalf("ended: %v", stream.closed)
			}
			if err != nil {
				return
			}
			runs := b.all()
			if c.after != nil {
				<-b.Done()
				if why := b.Gone(); !errors.Is(why, wire.ErrViolation) && !strings.Contains(why.Error(), "violation") {
					t.Error(why)
				}
				// The next case needs the log.
				restore(t, logs, good, mine)
				return
			}
			if len(runs) != c.back {
				t.Errorf("%d were resumed", len(runs))
			}
			b.Detach()
		})
	}
}

// Of what an agent lists only a few runs are accepted, all different, with names that are
// valid for files.
func FuzzKnown(f *testing.F) {
	one := wire.Append(nil, wire.Known, wire.ID{1}, []byte(`{"tag":"e-1","bytes":9,"ended":true}`))
	f.Add(one, 1)
	f.Add(append(one, wire.Append(nil, wire.Known, wire.ID{2}, []byte(`{"tag":"e-2","bytes":-1}`))...), 2)
	f.Add([]byte{}, 1<<40)
	f.Fuzz(func(t *testing.T, stream []byte, n int) {
		list, err := readKnown(wire.NewReader(bytes.NewReader(stream), wire.FromAgent), n)
		if err == nil && len(list) != n || len(list) > wire.MaxRuns {
			t.Fatalf("%d runs of %d, %v", len(list), n, err)
		}
		tags := map[string]bool{}
		for _, k := range list {
			if tags[k.Tag] || !wire.TagName(k.Tag) || k.Bytes < 0 {
				t.Errorf("%+v", k)
			}
			tags[k.Tag] = true
		}
	})
}

// restore makes the log anew that a box finished.
func restore(t *testing.T, logs *rawlog.Store, exec string, m rawlog.Meta) {
	t.Helper()
	for _, ext := range []string{".log", ".idx"} {
		if err := os.Remove(filepath.Join(logs.Dir, exec+ext)); err != nil {
			t.Fatal(err)
		}
	}
	m.Exec = exec
	l := logs.Create(m)
	l.Write(rawlog.Stdout, []byte("text"))
	l.Detach()
}

type leftStream struct {
	net.Conn
	once   sync.Once
	closed bool
}

func (s *leftStream) Detach() error {
	s.once.Do(func() { s.Conn.Close() })
	return nil
}

func (s *leftStream) Close() error {
	s.once.Do(func() {
		s.closed = true
		s.Conn.Close()
	})
	return nil
}
