package soak

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/docker"
	"github.com/warmbox/warmbox/sandbox/docker/enginetest"
)

// A service is the program as a team runs it: `warmbox http` on a private engine, with
// a token for each of several people. One server follows another, with the same
// address, directories and engine.
type service struct {
	*testing.T
	engine *enginetest.Engine
	url    string
	tokens []string
	args   []string
	env    []string
	log    string // a file

	// turn counts the starts and ends of servers: it is even while one serves. A
	// client that reads the same even number twice had the same server.
	turn atomic.Int64
	cmd  *exec.Cmd
}

// memoryLimit makes the server's collector run often, so that resident memory shows
// what the server holds and not when the collector last ran.
const memoryLimit = "GOMEMLIMIT=64MiB"

// newService starts an engine, and no server.
func newService(t *testing.T, settings string) *service {
	t.Helper()
	e := enginetest.Start(t, enginetest.Config{})
	e.Load(enginetest.Base(t, docker.DefaultImage), docker.DefaultImage)
	dir, err := os.MkdirTemp("", "soak") // a short path, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &service{T: t, engine: e, log: filepath.Join(dir, "server.log")}
	s.turn.Store(1)
	var ring strings.Builder
	for _, name := range []string{"alice", "bob", "carol", "dave"} {
		s.tokens = append(s.tokens, rand.Text())
		fmt.Fprintf(&ring, "%s = %s\n", name, s.tokens[len(s.tokens)-1])
	}
	for name, text := range map[string]string{"config.toml": settings, "tokens": ring.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addr := freeAddress(t)
	s.url = "http://" + addr
	s.args = []string{"http", "--config", filepath.Join(dir, "config.toml"), "--docker-host", e.Host, "--listen", addr,
		"--token-file", filepath.Join(dir, "tokens")}
	s.env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"),
		"XDG_RUNTIME_DIR="+filepath.Join(dir, "run"), memoryLimit)
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

// freeAddress returns an unused address, for all servers of a service.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// open starts a server and returns when it serves.
func (s *service) open() {
	s.Helper()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.Command(program, s.args...)
	s.cmd.Env, s.cmd.Stderr = s.env, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.await("the server serves", func() bool {
		_, err := s.get("/healthz")
		return err == nil
	})
	s.turn.Add(1)
}

// end sends the server a signal and returns its exit status.
func (s *service) end(sig syscall.Signal) error {
	s.Helper()
	s.turn.Add(1)
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.Fatal(err)
	}
	late := time.AfterFunc(waitLimit, func() { s.cmd.Process.Kill() })
	defer late.Stop()
	return s.cmd.Wait()
}

// await waits until something is done.
func (s *service) await(what string, done func() bool) {
	s.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * waitLimit)
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			s.Fatalf("not within %v: %s\n%s", 2*waitLimit, what, s.tail())
		}
	}
}

// tail returns the end of the servers' log.
func (s *service) tail() string {
	text, _ := os.ReadFile(s.log)
	return string(text[max(0, len(text)-4000):])
}

func (s *service) get(path string) (string, error) {
	req, err := http.NewRequest("GET", s.url+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Timeout: waitLimit, Transport: &withToken{Transport: &http.Transport{DisableKeepAlives: true}, token: s.tokens[0]}}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(resp.Status))
	}
	return string(body), err
}

// metric returns the value of a metric of the server.
func (s *service) metric(name string) (value float64) {
	s.Helper()
	text, err := s.get("/metrics")
	if err != nil {
		s.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			value, _ = strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return value
		}
	}
	s.Fatalf("no metric %s in\n%s", name, text)
	return 0
}

// withToken sends a token with each request. Requests fail once it is cut.
type withToken struct {
	*http.Transport
	token string
	cut   atomic.Bool
}

func (b *withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.cut.Load() {
		return nil, errors.New("the network is gone")
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.Transport.RoundTrip(r)
}

// docker runs the engine's client on the service's engine.
func (s *service) docker(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", append([]string{"-H", s.engine.Host}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// left lists what boxes and ended servers have left: containers, volumes but those of
// agents, processes in containers, files of sockets, lock files of programs.
func (s *service) left() []string {
	s.Helper()
	containers, err := s.containers()
	homes, verr := s.homes()
	if err := errors.Join(err, verr); err != nil {
		return []string{err.Error()}
	}
	return slices.Concat(containers, homes, s.processes(), s.files())
}

// containers lists the engine's containers. After a crash the engine may list dead ones
// that it no longer knows.
func (s *service) containers() (list []string, err error) {
	out, err := s.docker("ps", "-a", "--format", `{{.ID}} {{.Status}} {{.Label "dev.warmbox.box"}}`)
	for line := range strings.Lines(out) {
		id, state, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, err := s.docker("inspect", "--type", "container", id); err == nil || !strings.HasPrefix(state, "Dead") {
			list = append(list, "container "+id+" "+state)
		}
	}
	return list, err
}

// homes lists the volumes of boxes. An engine that ends while it makes a volume forgets
// its labels, so that no program can know whose the volume is. Such volumes are omitted.
func (s *service) homes() (list []string, err error) {
	out, err := s.docker("volume", "ls", "--format", "{{.Name}} {{.Labels}}")
	for line := range strings.Lines(out) {
		name, labels, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(name, "warmbox-agent-") || labels == "" {
			continue
		}
		free, _ := s.docker("volume", "ls", "-q", "--filter", "dangling=true", "--filter", "name="+name)
		user, _ := s.docker("ps", "-a", "--filter", "volume="+name, "--format", "{{.ID}} {{.Status}}")
		list = append(list, fmt.Sprintf("volume %s %s, free: %v, of: %s", name, labels, free != "", strings.TrimSpace(user)))
	}
	return list, err
}

// processes lists those of the engine's containers, which are in its control group. It
// omits runc's, which never became an agent: an engine that is killed while it starts a
// container does not know that container any more, and no program could.
func (s *service) processes() (list []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		group, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		cmd, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if strings.Contains(string(group), "/"+filepath.Base(s.engine.Dir)+"/") && !strings.HasPrefix(string(cmd), "runc\x00init") {
			list = append(list, "process "+filepath.Base(dir)+" "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	return list
}

func (s *service) files() (list []string) {
	dir := filepath.Dir(s.log)
	for _, pattern := range []string{"run/warmbox/*", "state/warmbox/boxes/instances/*", "state/warmbox/boxes/kept/*/*"} {
		names, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, name := range names {
			list = append(list, "file "+name)
		}
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return append(list, err.Error())
	}
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		if strings.Contains(lines.Text(), dir) {
			list = append(list, "mount "+lines.Text())
		}
	}
	return list
}

// nothing checks that sweeps remove everything that is left. An engine that was killed
// or hung goes on, when it serves again, with requests of servers that have ended.
func (s *service) nothing() {
	s.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for late := time.After(waitLimit); ; {
		s.sweep()
		left := s.left()
		if len(left) == 0 {
			return
		}
		s.Logf("left at %v:\n  %s", time.Now(), strings.Join(left, "\n  "))
		select {
		case <-tick.C:
		case <-late:
			s.Errorf("left after %v:\n  %s\n%s", waitLimit, strings.Join(left, "\n  "), s.tail())
			return
		}
	}
}
