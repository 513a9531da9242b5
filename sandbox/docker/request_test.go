package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/google/go-cmp/cmp"

	"github.com/warmbox/warmbox/sandbox"
)

// hostile is an image that tries to set what a container is.
const hostile = `FROM ` + DefaultImage + `
USER root
ENV GODEBUG=gctrace=1 LD_PRELOAD=/evil.so PATH=/opt/tool/bin:/usr/bin:/bin HOME=/evil
WORKDIR /evil
ENTRYPOINT ["/evil"]
CMD ["evil"]
HEALTHCHECK --interval=1s CMD touch /workspace/evil
STOPSIGNAL SIGUSR1
EXPOSE 80
LABEL dev.warmbox.box=evil
`

// buildImage builds an image for a test.
func buildImage(t *testing.T, l *Launcher, tag, dockerfile string) {
	t.Helper()
	if err := l.BuildImage(t.Context(), BuildOptions{Dockerfile: []byte(dockerfile), Tag: tag}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeImage(t, l, tag) })
}

func removeImage(t *testing.T, l *Launcher, tag string) {
	t.Helper()
	e, err := l.connector.connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.ImageRemove(context.Background(), tag, image.RemoveOptions{Force: true}); err != nil {
		t.Error(err)
	}
}

// The engine reports of a container what the spec says.
func TestContainerHasWhatTheSpecSays(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "seccomp.json")
	if err := os.WriteFile(profile, []byte(`{"defaultAction":"SCMP_ACT_ALLOW"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	const evil = "warmbox-test/hostile:latest"
	buildImage(t, newLauncher(t, Config{}), evil, hostile)
	for _, c := range []struct {
		name   string
		config Config
		spec   sandbox.Spec
		want   func(*container.InspectResponse) // what differs from the default
	}{
		{name: "default"},
		{name: "hostile image", spec: sandbox.Spec{Image: evil}},
		{name: "limits", spec: sandbox.Spec{Memory: 64 << 20, CPUs: 0.5, Pids: 100, Tmp: 1 << 20, Network: "bridge"}, want: func(c *container.InspectResponse) {
			c.HostConfig.Memory, c.HostConfig.MemorySwap = 64<<20, 64<<20
			c.HostConfig.ShmSize = 4 << 20
			c.HostConfig.Sysctls["kernel.shmall"] = strconv.Itoa(27 << 20 / os.Getpagesize())
			c.HostConfig.NanoCPUs = 5e8
			*c.HostConfig.PidsLimit = 100
			c.HostConfig.Tmpfs["/tmp"] = "rw,exec,nosuid,nodev,size=1048576,nr_inodes=128,mode=1777"
			c.HostConfig.Tmpfs["/dev/shm"] = "rw,noexec,nosuid,nodev,size=4194304,nr_inodes=512,mode=1777"
			c.HostConfig.NetworkMode = "bridge"
		}},
		{name: "user", spec: sandbox.Spec{User: "7:8"}, want: func(c *container.InspectResponse) { c.Config.User = "7:8" }},
		{name: "seccomp", config: Config{SeccompProfile: profile}, want: func(c *container.InspectResponse) {
			c.HostConfig.SecurityOpt[1] = `seccomp={"defaultAction":"SCMP_ACT_ALLOW"}`
		}},
		{name: "the engine's seccomp", config: Config{SeccompProfile: EngineSeccomp}, want: func(c *container.InspectResponse) {
			c.HostConfig.SecurityOpt = c.HostConfig.SecurityOpt[:1]
		}},
		{name: "runtime", config: Config{Runtime: "runc"}, want: func(c *container.InspectResponse) { c.HostConfig.Runtime = "runc" }},
		{name: "relay", config: Config{Transport: relayTransport}, want: func(c *container.InspectResponse) {
			c.Config.Cmd = []string{"serve", "--listen", "@warmbox", "--peer-uid", "0"}
		}},
		{name: "relay of root", config: Config{Transport: relayTransport}, spec: sandbox.Spec{User: "0:0"}, want: func(c *container.InspectResponse) {
			c.Config.User = "0:0"
			c.Config.Cmd = []string{"serve", "--listen", "@warmbox", "--peer-uid", "65533"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.config.Transport == "" {
				c.config.Transport = socketTransport
			}
			l := newLauncher(t, c.config)
			b := launch(t, l, c.spec)
			r := greet(t, b)
			got, err := b.engine.ContainerInspect(t.Context(), b.container)
			if err != nil {
				t.Fatal(err)
			}
			want := hardened(b.engine)
			if c.want != nil {
				c.want(want)
			}
			if diff := cmp.Diff(facets(want), facets(&got)); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			if got.Config.Labels["dev.warmbox.box"] != b.id || got.Config.Labels["dev.warmbox.instance"] != l.instance.id {
				t.Errorf("labels %v", got.Config.Labels)
			}
			out, _ := sh(t, b, r, "pwd; env | grep -E 'GODEBUG|PRELOAD|^HOME'; echo $PATH; tr '\\0' '\\n' </proc/self/status | grep -E 'NoNewPrivs|CapBnd|Seccomp:'; ls /workspace")
			path := defaultPath
			if c.spec.Image == evil {
				path = "/opt/tool/bin:/usr/bin:/bin"
			}
			status := "CapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
			if want := "/workspace\nHOME=/home/agent\n" + path + "\n" + status; !strings.HasPrefix(out, "/workspace\n") || !strings.HasSuffix(out, want[len("/workspace\n"):]) {
				t.Errorf("in the box: %q, want %q", out, want)
			}
		})
	}
}

// hardened is a container as the design has it, for an empty spec.
func hardened(e *engine) *container.InspectResponse {
	pids := int64(512)
	noInit := false
	profile, err := json.Marshal(ourProfile())
	if err != nil {
		panic(err)
	}
	c := &container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{}, Config: &container.Config{
		Hostname: "warmbox", User: "1000:1000", WorkingDir: "/", StopSignal: "SIGKILL",
		Entrypoint:  []string{"/opt/warmbox/agent"},
		Cmd:         []string{"serve", "--dial", "/run/warmbox/agent.sock"},
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}}
	c.HostConfig = &container.HostConfig{
		NetworkMode: "none", IpcMode: "private", AutoRemove: true, ReadonlyRootfs: true, Init: &noInit,
		CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges", "seccomp=" + string(profile)},
		LogConfig: container.LogConfig{Type: "none"}, Runtime: e.info.DefaultRuntime,
		Tmpfs: map[string]string{
			"/tmp":     "rw,exec,nosuid,nodev,size=536870912,nr_inodes=65536,mode=1777",
			"/dev/shm": "rw,noexec,nosuid,nodev,size=67108864,nr_inodes=8192,mode=1777",
		},
		ShmSize:   64 << 20,
		Sysctls:   map[string]string{"kernel.shmall": strconv.Itoa(448 << 20 / os.Getpagesize()), "kernel.msgmni": "256", "kernel.sem": "250 32000 32 128"},
		Resources: container.Resources{Memory: 2 << 30, MemorySwap: 2 << 30, NanoCPUs: int64(min(2, e.info.NCPU)) * 1e9, PidsLimit: &pids},
	}
	return c
}

// facets lists what a test compares of a container.
func facets(c *container.InspectResponse) map[string]string {
	h, k := c.HostConfig, c.Config
	m := make(map[string]string)
	for name, v := range map[string]any{
		"host": k.Hostname, "user": k.User, "dir": k.WorkingDir, "signal": k.StopSignal, "entrypoint": k.Entrypoint, "cmd": k.Cmd,
		"health": k.Healthcheck.Test, "tty": k.Tty, "stdin": k.OpenStdin, "volumes": len(k.Volumes),
		"network": h.NetworkMode, "ipc": h.IpcMode, "pid": h.PidMode, "uts": h.UTSMode, "remove": h.AutoRemove, "readonly": h.ReadonlyRootfs, "init": *h.Init,
		"capadd": []string(h.CapAdd), "capdrop": []string(h.CapDrop), "security": h.SecurityOpt, "privileged": h.Privileged, "log": h.LogConfig.Type, "runtime": h.Runtime,
		"tmpfs": h.Tmpfs, "shm": h.ShmSize, "sysctls": h.Sysctls, "memory": h.Memory, "swap": h.MemorySwap, "cpus": h.NanoCPUs, "pids": *h.PidsLimit,
		"devices": len(h.Devices), "ports": len(h.PortBindings), "ulimits": len(h.Ulimits), "binds": len(h.Binds), "groups": len(h.GroupAdd),
	} {
		m[name] = fmt.Sprint(v)
	}
	return m
}

func TestCPUsAreClampedAndNotedOnce(t *testing.T) {
	l := newLauncher(t, Config{})
	for i, want := range []int{1, 0} {
		b := launch(t, l, sandbox.Spec{CPUs: 1000})
		if notes := b.Place().Notes; len(notes) != want || want == 1 && !strings.Contains(notes[0], "1000") {
			t.Errorf("launch %d: notes %q", i, notes)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestBadSpecsAreRefused(t *testing.T) {
	const writer = "warmbox-test/volumes:latest"
	l := newLauncher(t, Config{})
	buildImage(t, l, writer, "FROM "+DefaultImage+"\nVOLUME /data\n")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, code, text string
		spec             sandbox.Spec
	}{
		{"image name", sandbox.InvalidArgument, `the image name "Bad Name" is invalid`, sandbox.Spec{Image: "Bad Name"}},
		{"no such image", sandbox.ImageNotFound, "localhost:1/nothing:1 is not on this engine", sandbox.Spec{Image: "localhost:1/nothing:1"}},
		{"image with volumes", sandbox.ImageDenied, "declares volumes", sandbox.Spec{Image: writer}},
		{"network", sandbox.InvalidArgument, `a box cannot have the network "host"`, sandbox.Spec{Network: "host"}},
		{"user", sandbox.InvalidArgument, `a box cannot run as user "root": it must be uid:gid`, sandbox.Spec{User: "root"}},
		{"negative user", sandbox.InvalidArgument, `a box cannot run as user "-1:0": it must be uid:gid`, sandbox.Spec{User: "-1:0"}},
		{"workspace", sandbox.WorkspaceGone, "/no/such/dir", sandbox.Spec{Workspace: "/no/such/dir"}},
		{"workspace is a file", sandbox.InvalidArgument, "not a directory", sandbox.Spec{Workspace: file}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := l.Launch(t.Context(), "bad", c.spec)
			e, ok := errors.AsType[*sandbox.Error](err)
			if !ok || e.Code != c.code || !strings.Contains(e.Text, c.text) || e.Hint == "" {
				t.Errorf("got %#v, want %s with %q and a hint", err, c.code, c.text)
			}
		})
	}
	_, err := newLauncher(t, Config{Runtime: "runsx"}).Launch(t.Context(), "bad", sandbox.Spec{})
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.InvalidArgument || !strings.Contains(e.Text, "runc") {
		t.Errorf("got %v", err)
	}
	_, err = newLauncher(t, Config{SeccompProfile: file}).Launch(t.Context(), "bad", sandbox.Spec{})
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.InvalidArgument || !strings.Contains(e.Text, "not JSON") {
		t.Errorf("got %v", err)
	}
}

func TestDefaultImageIsNeverPulled(t *testing.T) {
	l := newLauncher(t, Config{})
	e, err := l.connector.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = l.pull(t.Context(), e, DefaultImage, nil)
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.ImageNotFound || !strings.Contains(e.Hint, "warmbox image build") {
		t.Errorf("got %v", err)
	}
}

// TestMissingImageSaysHowToGetIt: only our own images are built.
func TestMissingImageSaysHowToGetIt(t *testing.T) {
	const foreign = "localhost:1/foo:1"
	for ref, want := range map[string]string{
		"warmbox/sandbox:full": "warmbox image build --target full",
		DefaultImage:           "warmbox image build --target slim",
		foreign:                "docker pull " + foreign,
	} {
		l := newLauncher(t, Config{DefaultImage: ref})
		e, err := l.connector.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = l.pull(t.Context(), e, ref, nil)
		if e, ok := errors.AsType[*sandbox.Error](err); !ok || !strings.Contains(e.Hint, want) || strings.Contains(e.Hint, "image build") == (ref == foreign) {
			t.Errorf("%s: %#v", ref, err)
		}
	}
}

func TestBuildReportsTheFailingStep(t *testing.T) {
	l := newLauncher(t, Config{})
	var lines []string
	err := l.BuildImage(t.Context(), BuildOptions{Tag: "warmbox-test/broken", Dockerfile: []byte("FROM " + DefaultImage + "\nRUN echo so far so good; echo red >&2; exit 9\n")},
		func(s string) { lines = append(lines, s) })
	if err == nil || !strings.Contains(err.Error(), "so far so good") || !strings.Contains(err.Error(), "returned a non-zero code: 9") {
		t.Errorf("got %v", err)
	}
	if !slices.Contains(lines, "so far so good") || !slices.Contains(lines, "red") {
		t.Errorf("progress %q", lines)
	}
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Hint != "" {
		t.Errorf("%#v; want no hint about the base image, which was there", err)
	}
}

func TestMounts(t *testing.T) {
	skills, cache := makeFiles(t, "a/skill"), makeFiles(t, "old")
	l := newLauncher(t, Config{})
	b := launch(t, l, sandbox.Spec{Mounts: []sandbox.Mount{
		{Source: skills, Target: "/skills"},
		{Source: filepath.Join(skills, "a", "skill"), Target: "/home/agent/.config/tool/skill"},
		{Source: cache, Target: "/home/agent/.cache/go-build", Writable: true},
	}})
	r := greet(t, b)
	out, code := sh(t, b, r, `exec 2>&1; cat /skills/a/skill ~/.config/tool/skill ~/.cache/go-build/old; touch ~/.config/mine ~/.cache/mine ~/.cache/go-build/new && echo " made"; touch /skills/x`)
	if !strings.HasPrefix(out, "a/skilla/skillold made\n") || !strings.Contains(out, "Read-only file system") || code == 0 {
		t.Errorf("%q, exit %d", out, code)
	}
	if _, err := os.Stat(filepath.Join(cache, "new")); err != nil {
		t.Error(err)
	}
}

// TestVanishingWorkspaceLeavesNoVolume removes and restores a workspace while
// containers are created with it: the engine checks it twice, and does not remove a
// volume that it has created in between.
func TestVanishingWorkspaceLeavesNoVolume(t *testing.T) {
	l := newLauncher(t, Config{})
	e := launch(t, l, sandbox.Spec{}).engine
	l.instance.sweeps.Wait() // which would remove the leftovers
	workspace := filepath.Join(t.TempDir(), "workspace")
	if err := os.Mkdir(workspace, 0o777); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var mover sync.WaitGroup
	mover.Go(func() {
		for ctx.Err() == nil {
			os.Rename(workspace, workspace+".away")
			os.Rename(workspace+".away", workspace)
		}
	})
	c := request{marks: marks{Box: "vanishes", Host: l.instance.hostLabel()}, fileSystem: fileSystem{Workspace: workspace}}
	c.Agent.Source = t.TempDir()
	host := &container.HostConfig{NetworkMode: "none", Mounts: c.mounts()}
	made := 0
	for range 50 {
		if r, err := e.create(t.Context(), &container.Config{Image: DefaultImage}, host); err == nil {
			made++
			if err := e.remove(t.Context(), r.ID); err != nil {
				t.Error(err)
			}
		}
	}
	stop()
	mover.Wait()
	t.Logf("%d were made", made)
	mine := filters.NewArgs(filters.Arg("label", labelPrefix+"home=vanishes"), filters.Arg("label", labelPrefix+"host="+l.instance.hostLabel()))
	found, err := e.VolumeList(t.Context(), volume.ListOptions{Filters: mine})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found.Volumes {
		t.Errorf("left: volume %s", v.Name)
		e.VolumeRemove(t.Context(), v.Name, true)
	}
}

func TestMountable(t *testing.T) {
	for target, want := range map[string]bool{
		"/skills": true, "/etc/ssl/certs": true, "/home/agent/.cache/go-build": true, "/tmp/x": true, "/usr/share/x": true, "/opt/skills": true, "/home/other": true,
		"/": false, "": false, "skills": false, "/a/../etc": false, "/a/": false, "/home": false, "/home/agent": false, "/opt": false, "/opt/warmbox/agent": false,
		"/run": false, "/run/warmbox": false, "/workspace": false, "/workspace/x": false, "/proc/sys": false, "/sys": false, "/dev/shm": false, "/etc": false,
		"/etc/passwd": false, "/tmp": false, "/a\nb": false,
	} {
		if got := mountable(target); got != want {
			t.Errorf("%q: %v", target, got)
		}
	}
}
