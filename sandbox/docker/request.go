package docker

import (
	"archive/tar"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/warmbox/warmbox/sandbox"
)

const (
	labelPrefix = "dev.warmbox."

	homeParent   = "/home"
	home         = homeParent + "/agent"
	workspaceDir = "/workspace"
	socketDir    = "/run/warmbox"
	socketName   = "agent.sock"

	// mostShm is little: what a browser needs can be had in /tmp, and it counts
	// as memory.
	mostShm = 64 << 20
)

// A request is all that a container is made from. Nothing that an image, a
// client or a model says reaches the engine another way.
type request struct {
	Box      string
	Instance string
	Host     string // "" if nobody is to sweep it
	PID      int
	Started  time.Time

	Image     string // by its id, so that it is the one that was looked at
	ImageName string
	Unset     []string // names of variables that the image would set
	Unlabel   []string // names of labels of the image that look like ours
	UID, GID  int
	UserNS    string // a user name space other than the engine's own, as Podman takes it
	Network   string
	Memory    int64
	CPUs      float64
	Pids      int64
	Tmp       int64
	Sysctls   bool   // the engine can set those of System V IPC
	Seccomp   string // a profile, or its file where that is what the engine takes; "" is the engine's own
	CgroupV2  bool
	Runtime   string // "" is the engine's default

	Workspace string // a directory of the host; "" is one in the user's home
	ReadOnly  bool
	Covers    []cover // of parts of the workspace
	Mounts    []sandbox.Mount
	Passwd    string // a file of the host that replaces the image's; "" for none
	Group     string
	BringHome bool // the image has a home of this user, which the new volume gets

	Keep map[string]string // labels of a box that is kept

	Path      string // pathSocket or pathRelay
	Agent     agent
	SocketDir string
}

// container returns the request in the engine's terms.
func (c request) container() (*container.Config, *container.HostConfig) {
	config := &container.Config{
		Hostname:    "warmbox",
		User:        fmt.Sprintf("%d:%d", c.UID, c.GID),
		Env:         c.Unset, // a name without a value takes it away
		Image:       c.Image,
		WorkingDir:  "/",
		Entrypoint:  []string{agentPath},
		Cmd:         c.command(),
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		StopSignal:  "SIGKILL",
		Labels:      c.labels(),
	}
	noInit := false
	host := &container.HostConfig{
		NetworkMode:    container.NetworkMode(c.Network),
		IpcMode:        container.IPCModePrivate,
		UsernsMode:     container.UsernsMode(c.UserNS),
		AutoRemove:     true,
		LogConfig:      container.LogConfig{Type: "none"},
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		ReadonlyRootfs: true,
		Runtime:        c.Runtime,
		Tmpfs:          map[string]string{"/tmp": fmt.Sprintf("rw,exec,nosuid,nodev,size=%d,mode=1777", c.Tmp)},
		ShmSize:        c.shm(),
		Init:           &noInit,
		Mounts:         c.mounts(),
		Resources: container.Resources{
			Memory:     c.Memory,
			MemorySwap: c.Memory, // the sum of both: no swap
			NanoCPUs:   int64(math.Round(c.CPUs * 1e9)),
			PidsLimit:  &c.Pids,
		},
	}
	if c.Seccomp != "" {
		host.SecurityOpt = append(host.SecurityOpt, "seccomp="+c.Seccomp)
	}
	if c.Sysctls {
		host.Sysctls = c.sysctls()
	}
	if c.CgroupV2 {
		host.CgroupnsMode = container.CgroupnsModePrivate
	}
	return config, host
}

// What stays in memory when the processes have ended that made it, and so cannot be
// had back by killing them, is half of a box's memory at most: /tmp, /dev/shm and the
// shared memory of System V. Otherwise the kernel finds no process of a command to kill, and kills PID 1.
// POSIX queues have a limit of the agent's.

// mostTmp is how large /tmp can be in a box of so much memory: it leaves a sixteenth
// for either of the others.
func mostTmp(memory int64) int64 { return memory/2 - 2*(memory/16) }

func (c request) shm() int64 { return min(mostShm, c.Memory/16) }

// sysctls bound what System V IPC keeps. Queues are 256 of 16 KB, and sets of semaphores
// what they were on Linux for long; the kernel's own numbers come to gigabytes.
func (c request) sysctls() map[string]string {
	pages := (c.Memory/2 - c.Tmp - c.shm()) / int64(os.Getpagesize())
	return map[string]string{
		"kernel.shmall": strconv.FormatInt(max(pages, 1), 10),
		"kernel.msgmni": "256",
		"kernel.sem":    "250 32000 32 128",
	}
}

// refusesSysctls reports whether an engine could not start a container because of
// them: in a user name space, kernels before 6.11 refuse to set them.
func refusesSysctls(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "sysctl") || strings.Contains(err.Error(), "/proc/sys/kernel/"))
}

const noteSysctls = "The engine cannot bound shared memory of System V, which stays when its processes have ended: a command that fills the box's memory with it can end the box."

func (c request) command() []string {
	if c.Path == pathSocket {
		return []string{"serve", "--dial", socketDir + "/" + socketName}
	}
	return []string{"serve", "--listen", agentName, "--peer-uid", strconv.Itoa(c.relayUID())}
}

// relayUID is the user of the relay: another one than that of commands, so that
// they can neither pass for the relay nor touch it. Not 65534, which the kernel
// says of every user that it cannot name.
func (c request) relayUID() int {
	if c.UID == 0 {
		return 65533
	}
	return 0
}

func (c request) relayUser() string { return fmt.Sprintf("%d:%[1]d", c.relayUID()) }

func (c request) labels() map[string]string {
	labels := blank(c.Unlabel)
	maps.Copy(labels, map[string]string{
		labelPrefix + "box":        c.Box,
		labelPrefix + "image":      c.ImageName,
		labelPrefix + "instance":   c.Instance,
		labelPrefix + "server-pid": strconv.Itoa(c.PID),
		labelPrefix + "started":    c.Started.UTC().Format(time.RFC3339),
		labelPrefix + "host":       c.Host,
	})
	for name, value := range c.Keep {
		labels[labelPrefix+name] = value
	}
	return labels
}

// blank returns labels without values. A container has its image's labels too,
// and they cannot be taken away, only be overwritten.
func blank(names []string) map[string]string {
	labels := make(map[string]string)
	for _, name := range names {
		labels[name] = ""
	}
	return labels
}

func (c request) mounts() []mount.Mount {
	agent := bindMount(c.Agent.Source, agentDir, true)
	if c.Agent.Volume {
		agent = volumeMount(c.Agent.Source, agentDir, true, true)
	}
	mounts := []mount.Mount{agent}
	if c.Workspace != "" {
		mounts = append(mounts, bindMount(c.Workspace, workspaceDir, c.ReadOnly))
		mounts = append(mounts, c.coverMounts()...)
	}
	for _, m := range c.Mounts {
		mounts = append(mounts, bindMount(m.Source, m.Target, !m.Writable))
	}
	if c.SocketDir != "" {
		mounts = append(mounts, bindMount(c.SocketDir, socketDir, true))
	}
	if c.Passwd != "" {
		mounts = append(mounts, bindMount(c.Passwd, "/etc/passwd", true), bindMount(c.Group, "/etc/group", true))
	}
	// What the image has in homes of others stays there. The volume comes last: where
	// a source of the others is gone by now, the engine refuses the container, and
	// leaves what it has made for it so far.
	homes := volumeMount("", homeParent, false, !c.BringHome)
	homes.VolumeOptions.Labels = map[string]string{labelPrefix + "home": c.Box, labelPrefix + "host": c.Host}
	return append(mounts, homes)
}

func bindMount(source, target string, readOnly bool) mount.Mount {
	return mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate}}
}

// volumeMount mounts a volume, a new anonymous one where it has no name. With
// empty it does not get what the image has there.
func volumeMount(name, target string, readOnly, empty bool) mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Source: name, Target: target, ReadOnly: readOnly,
		VolumeOptions: &mount.VolumeOptions{NoCopy: empty}}
}

// dir is where commands start.
func (c request) dir() string {
	if c.Workspace == "" {
		return home + "/workspace" // the root of a volume of its own would belong to root
	}
	return workspaceDir
}

// mountParents returns the directories in the user's home that mounts lie in,
// from the top down. Where they are not there the engine makes them, as root's.
func (c request) mountParents() (dirs []string) {
	for _, m := range c.Mounts {
		for dir := path.Dir(m.Target); below(dir, home) && dir != home; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// fill makes the user's directories in the new volume for homes, whose root
// belongs to root.
func (b *box) fill(ctx context.Context, c request) error {
	var dirs []string
	if !c.BringHome {
		dirs = append(dirs, home)
	}
	if c.Workspace == "" {
		dirs = append(dirs, c.dir())
	}
	dirs = append(dirs, c.mountParents()...)
	if len(dirs) == 0 {
		return nil
	}
	var entries []*tar.Header
	for _, dir := range dirs {
		entries = append(entries, &tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dir, homeParent+"/"), Mode: 0o755, Uid: c.UID, Gid: c.GID})
	}
	if err := b.engine.CopyToContainer(ctx, b.container, homeParent, archive(nil, entries...), container.CopyToContainerOptions{}); err != nil {
		return fmt.Errorf("make %s: %w", strings.Join(dirs, " and "), err)
	}
	return nil
}
