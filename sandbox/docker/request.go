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

// The places of a box.
const (
	homeParent   = "/home"
	home         = homeParent + "/agent"
	workspaceDir = "/workspace"
	socketDir    = "/run/warmbox"
	socketName   = "agent.sock"
)

// A request has all that a container is created from. Nothing that an image, a
// client or a model says reaches the engine in another way.
type request struct {
	marks
	limits
	fileSystem

	Image     string   // by its id, so that it is the image that was inspected
	Unset     []string // names of variables that the image would set
	UID, GID  int
	UserNS    string // a user name space other than the engine's default, in Podman's syntax
	Network   string
	Seccomp   string // a profile, or its file where the engine takes that; "" is the engine's own
	CgroupV2  bool
	Runtime   string // "" is the engine's default
	Transport string
}

// marks identify a container on its labels.
type marks struct {
	Box        string
	Instance   string
	Host       string // "" if no process may sweep it
	PID        int
	Started    time.Time
	ImageName  string
	Unlabel    []string          // labels of the image that look like ours
	Persistent map[string]string // labels of a persistent box
}

// limits bound what a box can use.
type limits struct {
	Memory  int64
	CPUs    float64
	Pids    int64
	Tmp     int64
	Sysctls bool // the engine can set those of System V IPC
	Inodes  bool // the engine can limit the files of a tmpfs
}

// A fileSystem says what a box has beside its image.
type fileSystem struct {
	Workspace string // a directory of the host; "" is one in the user's home
	ReadOnly  bool
	Covers    []cover // of parts of the workspace
	Mounts    []sandbox.Mount
	Passwd    string // a file of the host that replaces the image's; "" for none
	Group     string
	BringHome bool // the image has a home of this user, which is copied into the new volume
	Agent     agent
	SocketDir string
}

// container returns the request in the engine's terms.
func (r request) container() (*container.Config, *container.HostConfig) {
	config := &container.Config{
		Hostname:    "warmbox",
		User:        fmt.Sprintf("%d:%d", r.UID, r.GID),
		Env:         r.Unset, // a name without a value removes the variable
		Image:       r.Image,
		WorkingDir:  "/",
		Entrypoint:  []string{agentPath},
		Cmd:         r.command(),
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		StopSignal:  "SIGKILL",
		Labels:      r.labels(),
	}
	noInit := false
	host := &container.HostConfig{
		NetworkMode:    container.NetworkMode(r.Network),
		IpcMode:        container.IPCModePrivate,
		UsernsMode:     container.UsernsMode(r.UserNS),
		AutoRemove:     true,
		LogConfig:      container.LogConfig{Type: "none"},
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		ReadonlyRootfs: true,
		Runtime:        r.Runtime,
		Tmpfs:          r.tmpfs(),
		ShmSize:        r.shm(),
		Init:           &noInit,
		Mounts:         r.mounts(),
		Resources: container.Resources{
			Memory:     r.Memory,
			MemorySwap: r.Memory, // the sum of both: no swap
			NanoCPUs:   int64(math.Round(r.CPUs * 1e9)),
			PidsLimit:  &r.Pids,
		},
	}
	if r.Seccomp != "" {
		host.SecurityOpt = append(host.SecurityOpt, "seccomp="+r.Seccomp)
	}
	if r.Sysctls {
		host.Sysctls = r.sysctls()
	}
	if r.CgroupV2 {
		host.CgroupnsMode = container.CgroupnsModePrivate
	}
	return config, host
}

func (r request) command() []string {
	if r.Transport == socketTransport {
		return []string{"serve", "--dial", socketDir + "/" + socketName}
	}
	return []string{"serve", "--listen", agentName, "--peer-uid", strconv.Itoa(r.relayUID())}
}

// relayUID is the user of the relay. It is not the user of commands, so commands
// can neither pass for the relay nor access it. Nor is it 65534, which the kernel
// reports for each user that has no id in a name space.
func (r request) relayUID() int {
	if r.UID == 0 {
		return 65533
	}
	return 0
}

func (r request) relayUser() string { return fmt.Sprintf("%d:%[1]d", r.relayUID()) }

// labelPrefix begins the names of our labels.
const labelPrefix = "dev.warmbox."

func (m marks) labels() map[string]string {
	labels := blank(m.Unlabel)
	maps.Copy(labels, map[string]string{
		labelPrefix + "box":        m.Box,
		labelPrefix + "image":      m.ImageName,
		labelPrefix + "instance":   m.Instance,
		labelPrefix + "server-pid": strconv.Itoa(m.PID),
		labelPrefix + "started":    m.Started.UTC().Format(time.RFC3339),
		labelPrefix + "host":       m.Host,
	})
	for name, value := range m.Persistent {
		labels[labelPrefix+name] = value
	}
	return labels
}

// blank returns labels without values. A container inherits the labels of its image:
// they cannot be removed, only overwritten.
func blank(names []string) map[string]string {
	labels := make(map[string]string)
	for _, name := range names {
		labels[name] = ""
	}
	return labels
}

// Half of a box's memory at most is in /tmp, /dev/shm and the shared memory of System
// V, and a twelfth in the kernel's records of their files. It stays used when the processes that filled it have ended, so the kernel cannot
// free it by killing a process: with more of it the kernel would find no process of a
// command to kill, and would kill PID 1. The agent limits POSIX queues.

// maxShm bounds /dev/shm. What a browser needs beyond it can be had in /tmp.
const maxShm = 64 << 20

// maxTmp is how large /tmp can be in a box of so much memory: it leaves a sixteenth
// of the memory for each of the other two.
func maxTmp(memory int64) int64 { return memory/2 - 2*(memory/16) }

func (l limits) shm() int64 { return min(maxShm, l.Memory/16) }

const (
	// bytesPerInode divides the size of a tmpfs into its limit of inodes. Without one a
	// tmpfs has as many as the host's memory: an empty file takes none of its size, but
	// up to 1.5 KB of kernel memory with a long name, which the kernel charges to the
	// box and which no process holds. With this limit files add a fifth to the size at
	// most, and 512 MB hold 65,536 files. The kernel counts links and extended
	// attributes of users as inodes.
	bytesPerInode = 8 << 10

	// minInodes is the limit of a very small tmpfs: 0 would mean that there is none.
	minInodes = 128
)

func inodes(size int64) int64 { return max(size/bytesPerInode, minInodes) }

// tmpfs returns the options of /tmp and /dev/shm. An entry for /dev/shm replaces the
// engine's own mount, whose size is ShmSize and which has no other limit.
func (l limits) tmpfs() map[string]string {
	if !l.Inodes {
		return map[string]string{"/tmp": fmt.Sprintf("rw,exec,nosuid,nodev,size=%d,mode=1777", l.Tmp)}
	}
	return map[string]string{
		"/tmp":     fmt.Sprintf("rw,exec,nosuid,nodev,size=%d,nr_inodes=%d,mode=1777", l.Tmp, inodes(l.Tmp)),
		"/dev/shm": fmt.Sprintf("rw,noexec,nosuid,nodev,size=%d,nr_inodes=%d,mode=1777", l.shm(), inodes(l.shm())),
	}
}

// refusesInodes reports whether nr_inodes kept an engine from creating or starting a
// container. Podman accepts only options that it knows.
func refusesInodes(err error) bool {
	return err != nil && strings.Contains(err.Error(), "nr_inodes")
}

const noteInodes = "The engine cannot limit the number of files in /tmp and /dev/shm, which count as memory: a command that creates very many can end the box."

// sysctls bound what System V IPC keeps: 256 queues of 16 KB, and as many semaphores
// as Linux allowed for long. The kernel's own limits come to gigabytes.
func (l limits) sysctls() map[string]string {
	pages := (l.Memory/2 - l.Tmp - l.shm()) / int64(os.Getpagesize())
	return map[string]string{
		"kernel.shmall": strconv.FormatInt(max(pages, 1), 10),
		"kernel.msgmni": "256",
		"kernel.sem":    "250 32000 32 128",
	}
}

// refusesSysctls reports whether the sysctls kept an engine from starting a
// container. In a user name space kernels before 6.11 refuse to set them.
func refusesSysctls(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "sysctl") || strings.Contains(err.Error(), "/proc/sys/kernel/"))
}

const noteSysctls = "The engine cannot limit shared memory of System V, which stays used after its processes have ended: a command that fills the box's memory with it can end the box."

func (f fileSystem) mounts(of marks) []mount.Mount {
	agent := bindMount(f.Agent.Source, agentDir, true)
	if f.Agent.Volume {
		agent = volumeMount(f.Agent.Source, agentDir, true, true)
	}
	mounts := []mount.Mount{agent}
	if f.Workspace != "" {
		mounts = append(mounts, bindMount(f.Workspace, workspaceDir, f.ReadOnly))
		mounts = append(mounts, f.coverMounts()...)
	}
	for _, m := range f.Mounts {
		mounts = append(mounts, bindMount(m.Source, m.Target, !m.Writable))
	}
	if f.SocketDir != "" {
		mounts = append(mounts, bindMount(f.SocketDir, socketDir, true))
	}
	if f.Passwd != "" {
		mounts = append(mounts, bindMount(f.Passwd, "/etc/passwd", true), bindMount(f.Group, "/etc/group", true))
	}
	// The volume covers the image's homes of other users. It comes last: if a source
	// of another mount no longer exists, the engine refuses the container and leaves
	// the volumes that it has created for it.
	homes := volumeMount("", homeParent, false, !f.BringHome)
	homes.VolumeOptions.Labels = map[string]string{labelPrefix + "home": of.Box, labelPrefix + "host": of.Host}
	return append(mounts, homes)
}

func (r request) mounts() []mount.Mount { return r.fileSystem.mounts(r.marks) }

func bindMount(source, target string, readOnly bool) mount.Mount {
	return mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate}}
}

// volumeMount mounts a volume, a new anonymous one if the name is "". With empty the
// volume gets no copy of what the image has at the target.
func volumeMount(name, target string, readOnly, empty bool) mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Source: name, Target: target, ReadOnly: readOnly,
		VolumeOptions: &mount.VolumeOptions{NoCopy: empty}}
}

// dir is the directory in which commands start.
func (f fileSystem) dir() string {
	if f.Workspace == "" {
		return home + "/workspace" // the root of a volume of its own would belong to root
	}
	return workspaceDir
}

// mountParents returns the directories in the user's home that contain mounts, from
// the top down. The engine would create missing ones with root as their owner.
func (f fileSystem) mountParents() (dirs []string) {
	for _, m := range f.Mounts {
		for dir := path.Dir(m.Target); below(dir, home) && dir != home; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// fillHome creates the user's directories in the new volume for homes, whose root
// belongs to root.
func (b *box) fillHome(ctx context.Context, r request) error {
	var dirs []string
	if !r.BringHome {
		dirs = append(dirs, home)
	}
	if r.Workspace == "" {
		dirs = append(dirs, r.dir())
	}
	dirs = append(dirs, r.mountParents()...)
	if len(dirs) == 0 {
		return nil
	}
	var entries []*tar.Header
	for _, dir := range dirs {
		entries = append(entries, &tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dir, homeParent+"/"), Mode: 0o755, Uid: r.UID, Gid: r.GID})
	}
	if err := b.engine.CopyToContainer(ctx, b.container, homeParent, archive(nil, entries...), container.CopyToContainerOptions{}); err != nil {
		return fmt.Errorf("make %s: %w", strings.Join(dirs, " and "), err)
	}
	return nil
}
