package docker

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/docker/go-connections/tlsconfig"

	"github.com/warmbox/warmbox/sandbox"
)

// An endpoint is an address at which an engine may listen.
type endpoint struct {
	Host   string // as in DOCKER_HOST
	Origin string // where the address comes from, for messages

	certs  string // a directory with ca.pem, cert.pem and key.pem, "" without TLS
	verify bool   // the engine's certificate
}

// endpoints returns the addresses to search for an engine, the likeliest first. One
// that the user named is the only one: another engine is not what they meant.
func endpoints(host string) ([]endpoint, error) {
	if host != "" {
		return checked(fromEnv(host, "the configuration"))
	}
	if host = os.Getenv("DOCKER_HOST"); host != "" {
		return checked(fromEnv(host, "DOCKER_HOST"))
	}
	list := usual()
	ep, err := fromContext()
	if err != nil {
		return nil, err
	}
	if ep.Host != "" {
		list = slices.DeleteFunc(list, func(u endpoint) bool { return u.Host == ep.Host })
		list = slices.Insert(list, 0, ep)
		_, err = checked(ep)
	}
	return list, err
}

// checked returns an endpoint alone, and refuses an address that cannot be used.
func checked(ep endpoint) ([]endpoint, error) {
	scheme, addr, ok := strings.Cut(ep.Host, "://")
	switch {
	case ok && addr != "" && slices.Contains([]string{"unix", "tcp", "http", "https", "npipe"}, scheme):
		return []endpoint{ep}, nil
	case scheme == "ssh":
		return nil, &sandbox.Error{Code: sandbox.DockerUnavailable,
			Text: fmt.Sprintf("Cannot use the Docker Engine at %s, from %s: ssh addresses are not supported.", sanitize(ep.Host, 200), ep.Origin),
			Hint: "Forward its socket: ssh -nNT -L /tmp/engine.sock:/var/run/docker.sock HOST, then set DOCKER_HOST=unix:///tmp/engine.sock."}
	}
	return nil, &sandbox.Error{Code: sandbox.DockerUnavailable,
		Text: fmt.Sprintf("The address %q of a Docker Engine, from %s, is invalid.", sanitize(ep.Host, 200), ep.Origin),
		Hint: "Name one such as unix:///var/run/docker.sock or tcp://host:2376."}
}

// fromEnv adds the TLS settings of DOCKER_TLS_VERIFY and DOCKER_CERT_PATH to a host.
func fromEnv(host, origin string) endpoint {
	ep := endpoint{Host: host, Origin: origin, certs: os.Getenv("DOCKER_CERT_PATH"), verify: os.Getenv("DOCKER_TLS_VERIFY") != ""}
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

// fromContext returns the endpoint of the current docker context, zero for the default
// one.
func fromContext() (endpoint, error) {
	name := os.Getenv("DOCKER_CONTEXT")
	origin := "DOCKER_CONTEXT"
	if name == "" {
		var config struct {
			CurrentContext string `json:"currentContext"`
		}
		// Without a readable file the docker command uses the default, too.
		if readJSON(filepath.Join(configDir(), "config.json"), &config) != nil {
			return endpoint{}, nil
		}
		name, origin = config.CurrentContext, "the current docker context"
	}
	if name == "" || name == "default" {
		return endpoint{}, nil
	}
	return readContext(name, origin)
}

func readContext(name, origin string) (endpoint, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	origin = fmt.Sprintf("%s %q", origin, sanitize(name, 100))
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	file := filepath.Join(configDir(), "contexts", "meta", id, "meta.json")
	if err := readJSON(file, &meta); err != nil {
		return endpoint{}, sandbox.Errorf(sandbox.DockerUnavailable, "Try: docker context ls, then docker context use NAME.", "Cannot use %s: %w", origin, err)
	}
	docker, ok := meta.Endpoints["docker"]
	if !ok || docker.Host == "" {
		return endpoint{}, nil
	}
	ep := endpoint{Host: docker.Host, Origin: origin, verify: !docker.SkipTLSVerify}
	certs := filepath.Join(configDir(), "contexts", "tls", id, "docker")
	if entries, err := os.ReadDir(certs); err == nil && len(entries) > 0 {
		ep.certs = certs
	}
	return ep, nil
}

// usual returns the default addresses of engines.
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

// transport returns an HTTP transport for the endpoint. The client adds how to dial.
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
	// HTTP/2 is off: it cannot upgrade a connection to the stream of a relay.
	return &http.Transport{TLSClientConfig: config, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}, nil
}
