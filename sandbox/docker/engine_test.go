package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmbox/warmbox/sandbox"
)

// nowhere makes an environment in which nobody names an engine.
func nowhere(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "DOCKER_API_VERSION"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	return home
}

// describe makes a docker context.
func describe(t *testing.T, home, name, meta string) (id string) {
	t.Helper()
	sum := sha256.Sum256([]byte(name))
	id = hex.EncodeToString(sum[:])
	dir := filepath.Join(home, ".docker", "contexts", "meta", id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "meta.json"), []byte(meta), 0o644); err != nil {
		t.Fatal(err)
	}
	return id
}

func hosts(list []endpoint) (hosts []string) {
	for _, e := range list {
		hosts = append(hosts, e.Host)
	}
	return hosts
}

func TestEndpoints(t *testing.T) {
	home := nowhere(t)
	id := describe(t, home, "lab", `{"Name":"lab","Endpoints":{"docker":{"Host":"tcp://lab:2376","SkipTLSVerify":true}}}`)
	describe(t, home, "odd", `{`)
	describe(t, home, "far", `{"Endpoints":{"docker":{"Host":"ssh://me@far"}}}`)
	tls := filepath.Join(home, ".docker", "contexts", "tls", id, "docker")
	if err := os.MkdirAll(tls, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tls, "ca.pem"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	rest := hosts(usual())
	for _, c := range []struct {
		name, flag string
		env        map[string]string
		config     string
		want       []string
		first      endpoint
		fails      string
	}{
		{name: "nothing", want: rest},
		{name: "flag", flag: "unix:///x.sock", env: map[string]string{"DOCKER_HOST": "tcp://other:1"}, want: []string{"unix:///x.sock"},
			first: endpoint{Host: "unix:///x.sock", Origin: "the configuration"}},
		{name: "DOCKER_HOST", env: map[string]string{"DOCKER_HOST": "tcp://h:2376", "DOCKER_TLS_VERIFY": "1"}, want: []string{"tcp://h:2376"},
			first: endpoint{Host: "tcp://h:2376", Origin: "DOCKER_HOST", certs: filepath.Join(home, ".docker"), verify: true}},
		{name: "host over context", env: map[string]string{"DOCKER_HOST": "unix:///x", "DOCKER_CONTEXT": "lab", "DOCKER_CERT_PATH": "/c"}, want: []string{"unix:///x"},
			first: endpoint{Host: "unix:///x", Origin: "DOCKER_HOST"}},
		{name: "DOCKER_CONTEXT", env: map[string]string{"DOCKER_CONTEXT": "lab"}, want: append([]string{"tcp://lab:2376"}, rest...),
			first: endpoint{Host: "tcp://lab:2376", Origin: `DOCKER_CONTEXT "lab"`, certs: tls}},
		{name: "current context", config: `{"currentContext":"lab","auths":{}}`, want: append([]string{"tcp://lab:2376"}, rest...),
			first: endpoint{Host: "tcp://lab:2376", Origin: `the current docker context "lab"`, certs: tls}},
		{name: "default context", config: `{"currentContext":"default"}`, want: rest},
		{name: "broken config", config: `{{{`, want: rest},
		{name: "no such context", env: map[string]string{"DOCKER_CONTEXT": "gone"}, fails: "docker context ls"},
		{name: "broken context", env: map[string]string{"DOCKER_CONTEXT": "odd"}, fails: "meta.json"},
		{name: "ssh context", env: map[string]string{"DOCKER_CONTEXT": "far"}, fails: "ssh addresses are not supported"},
		{name: "ssh", env: map[string]string{"DOCKER_HOST": "ssh://me@far"}, fails: "ssh addresses are not supported"},
		{name: "nonsense", flag: "/var/run/docker.sock", fails: "is invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			if c.config != "" {
				file := filepath.Join(home, ".docker", "config.json")
				if err := os.WriteFile(file, []byte(c.config), 0o644); err != nil {
					t.Fatal(err)
				}
				defer os.Remove(file)
			}
			got, err := endpoints(c.flag)
			if c.fails != "" {
				e, ok := errors.AsType[*sandbox.Error](err)
				if !ok || e.Code != sandbox.DockerUnavailable || !strings.Contains(e.Text+e.Hint, c.fails) {
					t.Fatalf("got %v, want %s with %q", err, sandbox.DockerUnavailable, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, hosts(got)); diff != "" {
				t.Error(diff)
			}
			if c.first.Host != "" && got[0] != c.first {
				t.Errorf("got %+v, want %+v", got[0], c.first)
			}
		})
	}
}

func TestEngineThatIsDown(t *testing.T) {
	nowhere(t)
	path := filepath.Join(shortDir(t), "engine.sock")
	l := New(Config{Host: "unix://" + path})
	for range 2 { // a failure is not remembered, nor is it worse the second time
		_, err := l.Launch(t.Context(), "box", sandbox.Spec{})
		e, ok := errors.AsType[*sandbox.Error](err)
		if !ok || e.Code != sandbox.DockerUnavailable {
			t.Fatalf("got %v, want %s", err, sandbox.DockerUnavailable)
		}
		want := "Cannot reach the Docker Engine at unix://" + path + " (no such file or directory). Is it running? Try: docker ps."
		if e.Text != want {
			t.Errorf("got %q, want %q", e.Text, want)
		}
	}
	t.Setenv("DOCKER_HOST", "unix://"+path+strings.Repeat("x", 100))
	if _, err := New(Config{}).Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a socket path that is too long: %v", err)
	}
}

func TestOtherEndpointsAreNamed(t *testing.T) {
	e, _ := errors.AsType[*sandbox.Error](unreachable(endpoint{Host: "unix:///a"}, os.ErrNotExist, []endpoint{{Host: "unix:///b"}, {Host: "unix:///c"}}))
	if !strings.HasSuffix(e.Text, "Other endpoints tried: unix:///b, unix:///c.") {
		t.Errorf("got %q", e.Text)
	}
}

func TestEngineThatHangs(t *testing.T) {
	nowhere(t)
	path := filepath.Join(shortDir(t), "engine.sock")
	hanging, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close() // its backlog takes connections, and nobody answers
	begun := time.Now()
	_, err = New(Config{Host: "unix://" + path}).Launch(t.Context(), "box", sandbox.Spec{})
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.DockerUnavailable || !strings.Contains(e.Text, "no answer within 5 s") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// An engine that stops answering is forgotten, so that the next launch looks
// again, and sweeps what was left meanwhile.
func TestLostEngineIsForgotten(t *testing.T) {
	e := need(t)
	path := filepath.Join(shortDir(t), "engine.sock")
	if err := os.Symlink(strings.TrimPrefix(e.endpoint.Host, "unix://"), path); err != nil {
		t.Skip(err)
	}
	l := launcher(t, Config{Host: "unix://" + path})
	first, err := l.connector.connect(t.Context())
	if err != nil {
		t.Skip(err)
	}
	launch(t, l, sandbox.Spec{}).Close()
	dead := New(Config{StateDir: l.config.StateDir, CacheDir: l.config.CacheDir})
	defer dead.Close()
	left := launch(t, dead, sandbox.Spec{})
	die(t, dead)
	target, _ := os.Readlink(path)
	os.Remove(path)
	first.Close() // the connections that it kept
	_, err = l.Launch(t.Context(), "box", sandbox.Spec{})
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.DockerUnavailable {
		t.Fatalf("got %v, want %s", err, sandbox.DockerUnavailable)
	}
	os.Symlink(target, path)
	launch(t, l, sandbox.Spec{})
	<-left.monitor.ended
}

func TestProbe(t *testing.T) {
	l := launcher(t, Config{})
	got, err := l.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", got)
	if got.Endpoint == "" || got.Version == "" || got.OS != "linux" || got.CPUs < 1 || got.Memory < 1 || !got.HasImage || got.Transport == "" {
		t.Errorf("something is missing: %+v", got)
	}
}

func TestRuncWarning(t *testing.T) {
	for version, bad := range map[string]bool{
		"1.1.5+ds1": true, "1.2.7": true, "1.2.8": false, "1.3.0": true, "1.3.2": true, "1.3.3": false, "v1.4.0": false,
		"1.3.0-rc.1": true, "crun 1.8": false, "": false, "1.2": false,
	} {
		if got := runcWarning(version) != ""; got != bad {
			t.Errorf("%q: bad is %v, want %v", version, got, bad)
		}
	}
}

func TestClean(t *testing.T) {
	if got, want := sanitize("a\x1b[31m\tb\r\nc\u202e\xff"+strings.Repeat("x", 50), 20), "a[31m b  c?xxxxxxxxx…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A user who is not in the engine's group is told that, and not to start an engine
// that runs.
func TestSocketThatTheUserMayNotOpen(t *testing.T) {
	for _, others := range [][]endpoint{nil, {{Host: "unix:///b"}}} {
		err := fmt.Errorf("ping: %w", &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)})
		e, _ := errors.AsType[*sandbox.Error](unreachable(endpoint{Host: "unix:///a"}, err, others))
		if want := "Cannot reach the Docker Engine at unix:///a: this user may not use its socket (permission denied)."; e.Text != want || !strings.Contains(e.Hint, "usermod -aG docker") {
			t.Errorf("got %q, hint %q", e.Text, e.Hint)
		}
	}
}
