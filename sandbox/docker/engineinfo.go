package docker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
)

// An Engine describes the engine that boxes run on.
type Engine struct {
	EngineServer
	EngineUsers
	EngineLimits

	Endpoint string   // e.g. "unix:///var/run/docker.sock"
	Origin   string   // where the endpoint comes from
	Podman   bool     // behind Docker's API
	Security []string // the engine's security options

	Image          string // the default one
	HasImage       bool
	Transport      string // "socket" or "relay"
	TransportKnown bool   // the transport has worked, or is the only one
	WorkspacesDir  string
}

// EngineServer describes the engine's programs and machine.
type EngineServer struct {
	Version     string
	API         string // the version in use
	OS, Arch    string
	CPUs        int
	Memory      int64  // bytes
	Runc        string // its version, "" where the engine does not say
	RuncWarning string // a known weakness of that version, "" for none
}

// EngineUsers describes the user ids of boxes.
type EngineUsers struct {
	Rootless bool
	UserNS   bool // user ids in boxes are others on the host
	FirstUID int  // what 0 in boxes is on the host, 0 where the engine does not say
}

// EngineLimits describes how the engine limits what boxes use.
type EngineLimits struct {
	Cgroup       string // the version
	CgroupDriver string
	Unlimited    []string // limits that it cannot enforce
}

// Probe inspects the engine and the default image, and starts nothing.
func (l *Launcher) Probe(ctx context.Context) (Engine, error) {
	e, err := l.connector.connect(ctx)
	if err != nil {
		return Engine{}, err
	}
	watched, stop := e.watchdog(ctx)
	defer stop()
	version, err := e.ServerVersion(watched)
	if err != nil {
		return Engine{}, l.connector.lost(ctx, e, orHangs(watched, fmt.Errorf("ask the engine for its version: %w", err)))
	}
	_, err = e.ImageInspect(watched, l.config.DefaultImage)
	if err != nil && !errdefs.IsNotFound(err) {
		return Engine{}, l.connector.lost(ctx, e, orHangs(watched, fmt.Errorf("inspect image %s: %w", l.config.DefaultImage, err)))
	}
	found := Engine{
		EngineServer: e.describeServer(version),
		EngineUsers:  EngineUsers{Rootless: e.has("rootless"), UserNS: e.has("userns"), FirstUID: e.idMapping().FirstUID},
		EngineLimits: e.describeLimits(),
		Endpoint:     e.endpoint.Host, Origin: e.endpoint.Origin, Podman: e.podman, Security: e.info.SecurityOptions,
		Image: l.config.DefaultImage, HasImage: err == nil,
	}
	var only bool
	found.Transport, only = l.transports.choose(e)
	found.TransportKnown = only || l.transports.remembered(e) != ""
	if dir, err := l.dirs.stateDir(); err == nil {
		found.WorkspacesDir = dir
	}
	return found, nil
}

func (e *engine) describeServer(v types.Version) EngineServer {
	s := EngineServer{
		Version: sanitize(v.Version, 50), API: e.ClientVersion(), OS: v.Os, Arch: v.Arch,
		CPUs: e.info.NCPU, Memory: e.info.MemTotal,
	}
	for _, c := range v.Components {
		if c.Name == "runc" {
			s.Runc, s.RuncWarning = sanitize(c.Version, 50), runcWarning(c.Version)
		}
	}
	return s
}

func (e *engine) describeLimits() EngineLimits {
	l := EngineLimits{Cgroup: e.info.CgroupVersion, CgroupDriver: e.info.CgroupDriver}
	for limit, enforced := range map[string]bool{"memory": e.info.MemoryLimit, "swap": e.info.SwapLimit, "CPUs": e.info.CPUCfsQuota, "processes": e.info.PidsLimit} {
		if !enforced {
			l.Unlimited = append(l.Unlimited, limit)
		}
	}
	return l
}

// runcWarning describes a known weakness of a version of runc. Before 1.2.8 and 1.3.3
// its masked paths could be raced and its writes to /proc redirected (CVE-2025-31133,
// CVE-2025-52565, CVE-2025-52881).
func runcWarning(version string) string {
	v, ok := parseVersion(version)
	fixed := [3]int{1, 2, 8}
	if v[0] == 1 && v[1] == 3 {
		fixed = [3]int{1, 3, 3}
	}
	if !ok || !less(v, fixed) {
		return ""
	}
	return fmt.Sprintf("runc before %d.%d.%d lets a crafted image or mount reach the host (CVE-2025-31133, CVE-2025-52565, CVE-2025-52881), "+
		"unless your distribution has fixed it; update the engine", fixed[0], fixed[1], fixed[2])
}

// parseVersion reads the three numbers that a version begins with.
func parseVersion(s string) (v [3]int, ok bool) {
	s = strings.TrimPrefix(s, "v")
	if i := strings.IndexAny(s, "-+~ "); i >= 0 {
		s = s[:i]
	}
	fields := strings.Split(s, ".")
	if len(fields) < 3 {
		return v, false
	}
	for i := range v {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

func less(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}
