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
	agentName = "@warmbox" // what it listens on, on the relay path
)

// An agent is where boxes get theirs from.
type agent struct {
	Source string // a directory of the host, or a volume of the engine
	Volume bool
}

// agent returns the agent for an image, putting it where boxes can mount it if
// it is not there yet. No image needs to bring it, and none can replace it.
func (l *Launcher) agent(ctx context.Context, e *engine, f facts, path string) (agent, error) {
	l.looks.Lock()
	defer l.looks.Unlock()
	key := path + " " + e.key() + " " + f.Arch
	l.mu.Lock()
	a, ok := l.agents[key]
	l.mu.Unlock()
	if ok && l.there(ctx, e, a) {
		return a, nil
	}
	err := agentbin.Ensure(ctx, f.Arch)
	var name string
	var size int64
	if err == nil {
		name, size, err = agentbin.Describe(f.Arch)
	}
	if err != nil {
		return a, &sandbox.Error{Code: sandbox.Internal, Text: "start box: " + err.Error(), Err: err}
	}
	if path == pathRelay {
		a = agent{Source: volumePrefix + name, Volume: true}
		err = l.fillVolume(ctx, e, f, a.Source, size)
	} else {
		a.Source, err = l.installAgent(f.Arch, name, size)
	}
	if err != nil {
		return a, fmt.Errorf("install the agent: %w", err)
	}
	l.mu.Lock()
	l.agents[key] = a
	l.mu.Unlock()
	return a, nil
}

// volumePrefix begins the names of the volumes in which agents lie.
const volumePrefix = "warmbox-agent-"

// there reports whether an agent that was installed is still there: people
// prune volumes and empty caches.
func (l *Launcher) there(ctx context.Context, e *engine, a agent) bool {
	if !a.Volume {
		return exists(filepath.Join(a.Source, "agent"))
	}
	_, err := e.VolumeInspect(ctx, a.Source)
	return err == nil
}

// installAgent puts the agent into a directory of its own. The file can be run
// by everybody and read by nobody: a process whose program cannot be read gives
// nothing away to others of its user.
func (l *Launcher) installAgent(arch, name string, size int64) (string, error) {
	parent, err := l.cacheDir("agents")
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
	return dir, put(dir, "agent", data, 0o111)
}

// fillVolume puts the agent into a volume, through a container that mounts it
// and never runs.
func (l *Launcher) fillVolume(ctx context.Context, e *engine, f facts, name string, size int64) error {
	labels := map[string]string{labelPrefix + "agent": name, labelPrefix + "host": l.hostLabel()}
	if _, err := e.VolumeCreate(ctx, volume.CreateOptions{Name: name, Labels: labels}); err != nil {
		return err
	}
	mounts := []mount.Mount{volumeMount(name, agentDir, false, true)}
	return l.withIdle(ctx, e, f, mounts, func(id string) error {
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

// withIdle calls do with a container of an image that is never started.
func (l *Launcher) withIdle(ctx context.Context, e *engine, f facts, mounts []mount.Mount, do func(id string) error) error {
	labels := blank(f.Labels)
	maps.Copy(labels, map[string]string{
		labelPrefix + "host":       l.hostLabel(),
		labelPrefix + "instance":   l.instance,
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

// archive returns a tar archive of entries, the last of which has the data.
func archive(data []byte, entries ...*tar.Header) *bytes.Buffer {
	buf := new(bytes.Buffer)
	w := tar.NewWriter(buf)
	for _, h := range entries {
		w.WriteHeader(h) // a Buffer takes everything
	}
	w.Write(data)
	w.Close()
	return buf
}
