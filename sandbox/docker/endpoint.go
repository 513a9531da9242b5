package docker

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/docker/go-connections/tlsconfig"

	"github.com/warmbox/warmbox/sandbox"
)

// An endpoint is where an engine may listen.
type endpoint struct {
	Host   string // as in DOCKER_HOST
	Origin string // who named it, for people

	certs  string // a directory with ca.pem, cert.pem and key.pem, "" without TLS
	verify bool   // the engine's certificate
}

// endpoints returns where to look for an engine, the likeliest first. One that
// the user named is the only one: another engine would not be what they meant.
func endpoints(host string) ([]endpoint, error) {
	if host != "" {
		return named(fromEnv(host, "the configuration"))
	}
	if host = os.Getenv("DOCKER_HOST"); host != "" {
		return named(fromEnv(host, "DOCKER_HOST"))
	}
	list := usual()
	ep, err := fromContext()
	if err != nil {
		return nil, err
	}
	if ep.Host != "" {
		list = slices.DeleteFunc(list, func(u endpoint) bool { return u.Host == ep.Host })
		list = slices.Insert(list, 0, ep)
		_, err = named(ep)
	}
	return list, err
}

func named(ep endpoint) ([]endpoint, error) {
	scheme, addr, ok := strings.Cut(ep.Host, "://")
	switch {
	case ok && addr != "" && slices.Contains([]string{"unix", "tcp", "http", "https", "npipe"}, scheme):
		return []endpoint{ep}, nil
	case scheme == "ssh":
		return nil, &sandbox.Error{Code: sandbox.DockerUnavailable,
			Text: fmt.Sprintf("Cannot use the Docker Engine at %s, from %s: this program does not speak ssh.", clean(ep.Host, 200), ep.Origin),
			Hint: "Forward its socket: ssh -nNT -L /tmp/engine.sock:/var/run/docker.sock HOST, then set DOCKER_HOST=unix:///tmp/engine.sock."}
	}
	return nil, &sandbox.Error{Code: sandbox.DockerUnavailable,
		Text: fmt.Sprintf("%q, from %s, is no address of a Docker Engine.", clean(ep.Host, 200), ep.Origin),
		Hint: "It looks like unix:///var/run/docker.sock or tcp://host:2376."}
}

// fromEnv adds the TLS settings that DOCKER_TLS_VERIFY and DOCKER_CERT_PATH
// make for a host.
func fromEnv(host, found string) endpoint {
	ep := endpoint{Host: host, Origin: found, certs: os.Getenv("DOCKER_CERT_PATH"), verify: os.Getenv("DOCKER_TLS_VERIFY") != ""}
	if ep.verify && ep.certs == "" {
		ep.certs = configDir()
	}
	if strings.HasPrefix(host, "unix://") || strings.HasPrefix(host, "npipe://") {
		ep.certs = ""
	}
	return ep
}

func configDir() string {
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	home, _ := os.UserHomeDir()
	return filepath.Join(home, ".docker")
}

// fromContext returns the endpoint of the current docker context, or none
// where that is the default one.
func fromContext() (endpoint, error) {
	name := os.Getenv("DOCKER_CONTEXT")
	found := "DOCKER_CONTEXT"
	if name == "" {
		var config struct {
			CurrentContext string `json:"currentContext"`
		}
		// Without a readable file the docker command too uses the default.
		if readJSON(filepath.Join(configDir(), "config.json"), &config) != nil {
			return endpoint{}, nil
		}
		name, found = config.CurrentContext, "the current docker context"
	}
	if name == "" || name == "default" {
		return endpoint{}, nil
	}
	return readContext(name, found)
}

func readContext(name, found string) (endpoint, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	found = fmt.Sprintf("%s %q", found, clean(name, 100))
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	file := filepath.Join(configDir(), "contexts", "meta", id, "meta.json")
	if err := readJSON(file, &meta); err != nil {
		return endpoint{}, sandbox.Errorf(sandbox.DockerUnavailable, "Try: docker context ls, then docker context use NAME.", "Cannot use %s: %w", found, err)
	}
	docker, ok := meta.Endpoints["docker"]
	if !ok || docker.Host == "" {
		return endpoint{}, nil
	}
	ep := endpoint{Host: docker.Host, Origin: found, verify: !docker.SkipTLSVerify}
	certs := filepath.Join(configDir(), "contexts", "tls", id, "docker")
	if entries, err := os.ReadDir(certs); err == nil && len(entries) > 0 {
		ep.certs = certs
	}
	return ep, nil
}

// usual returns where engines listen by default.
func usual() []endpoint {
	if runtime.GOOS == "windows" {
		return []endpoint{
			{Host: "npipe:////./pipe/docker_engine", Origin: "the usual pipe"},
			{Host: "npipe:////./pipe/podman-machine-default", Origin: "Podman's usual pipe"},
		}
	}
	sockets := []string{"/var/run/docker.sock"}
	run := os.Getenv("XDG_RUNTIME_DIR")
	if run != "" {
		sockets = append(sockets, filepath.Join(run, "docker.sock"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		for _, s := range []string{".docker/run", ".docker/desktop", ".colima/default", ".orbstack/run", ".rd"} {
			sockets = append(sockets, filepath.Join(home, s, "docker.sock"))
		}
	}
	if run != "" {
		sockets = append(sockets, filepath.Join(run, "podman/podman.sock"))
	}
	sockets = append(sockets, "/run/podman/podman.sock")
	list := make([]endpoint, len(sockets))
	for i, s := range sockets {
		list[i] = endpoint{Host: "unix://" + s, Origin: "a usual socket"}
	}
	return list
}

// transport returns one for the endpoint, which the client completes with how
// to dial.
func (ep endpoint) transport() (*http.Transport, error) {
	if ep.certs == "" {
		return new(http.Transport), nil
	}
	options := tlsconfig.Options{InsecureSkipVerify: !ep.verify, ExclusiveRootPools: true}
	for name, field := range map[string]*string{"ca.pem": &options.CAFile, "cert.pem": &options.CertFile, "key.pem": &options.KeyFile} {
		if file := filepath.Join(ep.certs, name); exists(file) {
			*field = file
		}
	}
	config, err := tlsconfig.Client(options)
	if err != nil {
		return nil, fmt.Errorf("TLS material in %s: %w", ep.certs, err)
	}
	// The stream of a relay is no HTTP/2 stream.
	return &http.Transport{TLSClientConfig: config, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// maxJSON bounds the small files that are read.
const maxJSON = 1 << 20

func readJSON(file string, v any) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxJSON))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
