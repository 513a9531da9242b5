package docker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
)

// An Engine is what there is to know about the engine that boxes run on.
type Engine struct {
	Endpoint      string // e.g. "unix:///var/run/docker.sock"
	Found         string // who named it
	Version       string
	API           string // the version that is spoken with it
	OS, Arch      string
	CPUs          int
	Memory        int64 // bytes
	Rootless      bool
	Podman        bool
	UserNS        bool // user ids in boxes are others on the host
	FirstUID      int  // what 0 in boxes is on the host, 0 where the engine does not say
	Cgroup        string
	CgroupDriver  string
	Runc          string   // its version, "" where the engine does not say
	RuncWarning   string   // what is wrong with that version, "" for nothing known
	Security      []string // the engine's security options
	Unlimited     []string // limits that it cannot enforce
	Image         string   // the default one
	HasImage      bool
	Path          string // "socket" or "relay"
	PathIsTried   bool   // the path has worked, or is the only one
	WorkspacesDir string
}

// Probe looks at the engine and the default image, and starts nothing.
func (l *Launcher) Probe(ctx context.Context) (Engine, error) {
	e, err := l.connect(ctx)
	if err != nil {
		return Engine{}, err
	}
	attended, done := e.attend(ctx)
	defer done()
	version, err := e.ServerVersion(attended)
	if err != nil {
		return Engine{}, l.lost(ctx, e, orSilence(attended, fmt.Errorf("ask the engine for its version: %w", err)))
	}
	_, err = e.ImageInspect(attended, l.config.DefaultImage)
	if err != nil && !errdefs.IsNotFound(err) {
		return Engine{}, l.lost(ctx, e, orSilence(attended, fmt.Errorf("inspect image %s: %w", l.config.DefaultImage, err)))
	}
	i := e.info
	found := Engine{
		Endpoint: e.endpoint.Host, Found: e.endpoint.Found,
		Version: clean(version.Version, 50), API: e.ClientVersion(), OS: version.Os, Arch: version.Arch,
		CPUs: i.NCPU, Memory: i.MemTotal, Rootless: e.has("rootless"), Podman: e.podman, UserNS: e.has("userns"), FirstUID: e.shift().FirstUID,
		Cgroup: i.CgroupVersion, CgroupDriver: i.CgroupDriver, Security: i.SecurityOptions,
		Image: l.config.DefaultImage, HasImage: err == nil,
	}
	for _, c := range version.Components {
		if c.Name == "runc" {
			found.Runc = clean(c.Version, 50)
			found.RuncWarning = runcWarning(c.Version)
		}
	}
	for limit, enforced := range map[string]bool{"memory": i.MemoryLimit, "swap": i.SwapLimit, "CPUs": i.CPUCfsQuota, "processes": i.PidsLimit} {
		if !enforced {
			found.Unlimited = append(found.Unlimited, limit)
		}
	}
	var sure bool
	found.Path, sure = l.path(e)
	found.PathIsTried = sure || l.rememberedPath(e) != ""
	if dir, err := l.stateDir(); err == nil {
		found.WorkspacesDir = dir
	}
	return found, nil
}

// runcWarning says what is known to be wrong with a version of runc. Its masked
// paths could be raced and its writes to /proc redirected (CVE-2025-31133,
// CVE-2025-52565, CVE-2025-52881) until 1.2.8 and 1.3.3.
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
		"unless your distribution has mended it; update the engine", fixed[0], fixed[1], fixed[2])
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
