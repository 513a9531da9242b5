package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/agentbin"
)

const (
	agentDir  = "/opt/warmbox"
	agentPath = agentDir + "/agent"
	agentName = "@warmbox" // the abstract socket that it listens on, for a relay
)

// An agent says where boxes mount their agent from.
type agent struct {
	Source string // a directory of the host, or a volume of the engine
	Volume bool
}

// An agentCache remembers which agents are installed.
type agentCache struct {
	mu        sync.Mutex // held also while an agent is installed, so that this happens once
	installed map[string]agent
}

func newAgentCache() *agentCache { return &agentCache{installed: make(map[string]agent)} }

// get returns an installed agent, with install where the cache has none or it is not
// there any more.
func (c *agentCache) get(key string, there func(agent) bool, install func() (agent, error)) (agent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.installed[key]
	if ok && there(a) {
		return a, nil
	}
	a, err := install()
	if err == nil {
		c.installed[key] = a
	}
	return a, err
}

// agentKey identifies the agent for a transport, an engine and an architecture.
func agentKey(transport string, e *engine, arch string) string {
	return transport + " " + e.key() + " " + arch
}

// agent returns the agent for an image, and installs it where boxes can mount it if
// that was not done. No image needs to bring it, and none can replace it.
func (l *Launcher) agent(ctx context.Context, e *engine, f facts, transport string) (agent, error) {
	there := func(a agent) bool { return a.there(ctx, e) }
	return l.agents.get(agentKey(transport, e, f.Arch), there, func() (a agent, err error) {
		var name string
		var size int64
		if err = agentbin.Ensure(ctx, f.Arch); err == nil {
			name, size, err = agentbin.Describe(f.Arch)
		}
		if err != nil {
			return a, &sandbox.Error{Code: sandbox.Internal, Text: "start box: " + err.Error(), Err: err}
		}
		if transport == relayTransport {
			a = agent{Source: volumePrefix + name, Volume: true}
			err = l.fillVolume(ctx, e, f, a.Source, size)
		} else {
			a.Source, err = l.dirs.installAgent(f.Arch, name, size)
		}
		if err != nil {
			return a, fmt.Errorf("install the agent: %w", err)
		}
		return a, nil
	})
}

// volumePrefix begins the names of the volumes that hold agents.
const volumePrefix = "warmbox-agent-"

// there reports whether an installed agent still exists: users prune volumes and
// empty caches.
func (a agent) there(ctx context.Context, e *engine) bool {
	if !a.Volume {
		return exists(filepath.Join(a.Source, "agent"))
	}
	_, err := e.VolumeInspect(ctx, a.Source)
	return err == nil
}

// installAgent writes the agent to a directory of its own. Every user may execute the
// file and none may read it: other processes of its user cannot inspect a process whose
// program is unreadable.
func (d dirs) installAgent(arch, name string, size int64) (string, error) {
	parent, err := d.cacheDir("agents")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, name)
	if info, err := os.Lstat(filepath.Join(dir, "agent")); err == nil && info.Mode() == 0o111 && info.Size() == size {
		return dir, nil
	}
	data, err := agentbin.For(arch)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	return dir, writeFile(dir, "agent", data, 0o111)
}

// fillVolume writes the agent to a volume, through a container that mounts it and
// never runs.
func (l *Launcher) fillVolume(ctx context.Context, e *engine, f facts, name string, size int64) error {
	labels := map[string]string{labelPrefix + "agent": name, labelPrefix + "host": l.instance.hostLabel()}
	if _, err := e.VolumeCreate(ctx, volume.CreateOptions{Name: name, Labels: labels}); err != nil {
		return err
	}
	mounts := []mount.Mount{volumeMount(name, agentDir, false, true)}
	return l.withStopped(ctx, e, f, mounts, func(id string) error {
		stat, err := e.ContainerStatPath(ctx, id, agentPath)
		if err == nil && stat.Size == size {
			return nil
		}
		if err != nil && !errdefs.IsNotFound(err) {
			return err
		}
		data, err := agentbin.For(f.Arch)
		if err != nil {
			return err
		}
		return e.CopyToContainer(ctx, id, agentDir, archive(data, &tar.Header{Name: "agent", Mode: 0o111, Size: size}), container.CopyToContainerOptions{})
	})
}

// withStopped calls do with a container of an image that is never started, and
// removes it.
func (l *Launcher) withStopped(ctx context.Context, e *engine, f facts, mounts []mount.Mount, do func(id string) error) error {
	labels := blank(f.Labels)
	maps.Copy(labels, map[string]string{
		labelPrefix + "host":       l.instance.hostLabel(),
		labelPrefix + "instance":   l.instance.id,
		labelPrefix + "server-pid": strconv.Itoa(os.Getpid()),
	})
	created, err := e.create(ctx,
		&container.Config{Image: f.ID, Entrypoint: []string{agentPath}, Labels: labels},
		&container.HostConfig{NetworkMode: "none", Mounts: mounts, LogConfig: container.LogConfig{Type: "none"}})
	if err != nil {
		return err
	}
	err = do(created.ID)
	if rerr := e.discard(ctx, created.ID, launchGrace); err == nil {
		err = rerr
	}
	return err
}

// archive returns a tar archive of entries, of which the last has the data.
func archive(data []byte, entries ...*tar.Header) *bytes.Buffer {
	buf := new(bytes.Buffer)
	w := tar.NewWriter(buf)
	for _, h := range entries {
		w.WriteHeader(h) // a Buffer never fails
	}
	w.Write(data)
	w.Close()
	return buf
}
