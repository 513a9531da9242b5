package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
)

const (
	// ownLabel marks the containers of one bench, including those of docker run.
	ownLabel = "dev.warmbox.bench"

	// lifeTime is the number of seconds after which a container ends and is removed if
	// its bench was killed.
	lifeTime = "600"

	// lateTime is how long an engine may still need to create a container after its
	// client disconnected.
	lateTime = 700 * time.Millisecond
)

// engine is the Docker Engine as programs without warmbox use it, and a long-lived
// container on it.
type engine struct {
	client    *client.Client
	host      string
	image     string
	label     string
	work      string // what the container sees as /workspace; "": nothing
	container string
}

// newEngine connects to the engine at host, and starts the container.
func newEngine(ctx context.Context, host, image, work string) (e *engine, err error) {
	if e, err = dial(host); err != nil {
		return nil, err
	}
	e.image = image
	if strings.HasPrefix(host, "unix://") { // another engine may be remote
		e.work = work
	}
	if e.container, err = e.start(ctx); err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		return nil, errors.Join(err, e.close(closing, ctx.Err() != nil))
	}
	return e, nil
}

func dial(host string) (*engine, error) {
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithHost(host), client.WithAPIVersionNegotiation())
	return &engine{client: c, host: host, label: ownLabel + "=" + rand.Text()}, err
}

// start creates and starts a container that does nothing.
func (e *engine) start(ctx context.Context) (string, error) {
	name, value, _ := strings.Cut(e.label, "=")
	config := &container.Config{Image: e.image, Entrypoint: []string{"sleep", lifeTime}, Labels: map[string]string{name: value}, User: e.user()}
	host := &container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"}, AutoRemove: true}
	if e.work != "" {
		host.Binds, config.WorkingDir = []string{e.work + ":/workspace"}, "/workspace"
	}
	// An engine finishes a cancelled request, possibly after the final sweep.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	made, err := e.client.ContainerCreate(whole, config, host, nil, nil, "")
	if err != nil {
		return "", err
	}
	return made.ID, e.client.ContainerStart(ctx, made.ID, container.StartOptions{})
}

// user is the user that warmbox runs commands as.
func (e *engine) user() string {
	if uid := os.Getuid(); uid > 0 {
		return fmt.Sprintf("%d:%d", uid, os.Getgid())
	}
	return "1000:1000"
}

func (e *engine) remove(ctx context.Context, id string) error {
	return e.client.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
}

// close removes every container of this bench. After an interrupt it sweeps twice,
// because an interrupted docker run may create its container a moment later.
func (e *engine) close(ctx context.Context, interrupted bool) error {
	if e == nil {
		return nil
	}
	err := e.sweep(ctx)
	if interrupted {
		select {
		case <-time.After(lateTime):
		case <-ctx.Done():
		}
		err = e.sweep(ctx)
	}
	return errors.Join(err, e.client.Close())
}

func (e *engine) sweep(ctx context.Context) error {
	mine := container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", e.label))}
	list, err := e.client.ContainerList(ctx, mine)
	errs := []error{err}
	for _, c := range list {
		// The engine may be removing one that ended by itself.
		if err := e.remove(ctx, c.ID); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// exec runs a command in the container, to its last byte and exit code.
func (e *engine) exec(ctx context.Context, cmd string, out io.Writer) error {
	made, err := e.client.ContainerExecCreate(ctx, e.container, container.ExecOptions{
		Cmd: []string{"bash", "-c", cmd}, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return err
	}
	stream, err := e.client.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, stream.Close)()
	if _, err := stdcopy.StdCopy(out, io.Discard, stream.Reader); err != nil {
		return errors.Join(err, ctx.Err())
	}
	state, err := e.client.ContainerExecInspect(ctx, made.ID)
	if err == nil && state.ExitCode != 0 {
		err = fmt.Errorf("%q ended with exit code %d", cmd, state.ExitCode)
	}
	return err
}

// execArgs and runArgs are the arguments of docker for a command in the container, and
// in a new one.
func (e *engine) execArgs(cmd string) []string {
	return []string{"-H", e.host, "exec", e.container, "bash", "-c", cmd}
}

func (e *engine) runArgs(cmd string) []string {
	args := []string{"-H", e.host, "run", "--rm", "--network=none", "--label=" + e.label, "--user=" + e.user()}
	if e.work != "" {
		args = append(args, "--volume="+e.work+":/workspace", "--workdir=/workspace")
	}
	return append(args, e.image, "bash", "-c", cmd)
}

// initPid returns the host's pid of a box's first process. The box's id is that of its
// container, or part of its name, or in a label.
func (e *engine) initPid(ctx context.Context, box string) (int, error) {
	list, err := e.client.ContainerList(ctx, container.ListOptions{})
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(list, func(c container.Summary) bool {
		for _, value := range c.Labels {
			if value == box {
				return true
			}
		}
		return strings.HasPrefix(c.ID, box) || slices.ContainsFunc(c.Names, func(name string) bool { return strings.Contains(name, box) })
	})
	if i < 0 {
		return 0, fmt.Errorf("no container of box %s", box)
	}
	info, err := e.client.ContainerInspect(ctx, list[i].ID)
	if err != nil {
		return 0, err
	}
	return info.State.Pid, nil
}

// boxesOf returns the containers of a server's boxes, including stopped ones.
func (e *engine) boxesOf(ctx context.Context, server int) ([]container.Summary, error) {
	mine := filters.NewArgs(filters.Arg("label", "dev.warmbox.server-pid="+strconv.Itoa(server)))
	return e.client.ContainerList(ctx, container.ListOptions{All: true, Filters: mine})
}

// inits returns the host's pids of the first processes of a server's boxes.
func (e *engine) inits(ctx context.Context, server int) (pids []int, err error) {
	list, err := e.boxesOf(ctx, server)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		info, err := e.client.ContainerInspect(ctx, c.ID)
		if err != nil {
			return nil, err
		}
		pids = append(pids, info.State.Pid)
	}
	return pids, nil
}

// homes counts the volumes of boxes.
func (e *engine) homes(ctx context.Context, boxes []string) (n int, err error) {
	list, err := e.client.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(filters.Arg("label", "dev.warmbox.home"))})
	for _, v := range list.Volumes {
		if slices.Contains(boxes, v.Labels["dev.warmbox.home"]) {
			n++
		}
	}
	return n, err
}
