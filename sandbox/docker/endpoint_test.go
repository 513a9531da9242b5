package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmbox/warmbox/sandbox"
)

// noEngineInEnv sets an environment that names no engine.
func noEngineInEnv(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "DOCKER_API_VERSION"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	return home
}

// makeContext creates a docker context.
func makeContext(t *testing.T, home, name, meta string) (id string) {
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
	home := noEngineInEnv(t)
	id := makeContext(t, home, "lab", `{"Name":"lab","Endpoints":{"docker":{"Host":"tcp://lab:2376","SkipTLSVerify":true}}}`)
	makeContext(t, home, "odd", `{`)
	makeContext(t, home, "far", `{"Endpoints":{"docker":{"Host":"ssh://me@far"}}}`)
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
