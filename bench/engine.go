package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
)

// engine is the Docker Engine as a program uses it that has no warmbox.
type engine struct {
	client  *client.Client
	image   string
	version string
}

func newEngine(ctx context.Context, image string) (*engine, error) {
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, err
	}
	v, err := c.ServerVersion(ctx)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &engine{client: c, image: image, version: v.Version}, nil
}

// start creates and starts a container that does nothing.
func (e *engine) start(ctx context.Context) (string, error) {
	made, err := e.client.ContainerCreate(ctx,
		&container.Config{Image: e.image, Entrypoint: []string{"sleep", "infinity"}, Labels: map[string]string{"dev.warmbox.bench": ""}},
		&container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"}}, nil, nil, "")
	if err != nil {
		return "", err
	}
	if err := e.client.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return "", errors.Join(err, e.remove(ctx, made.ID))
	}
	return made.ID, nil
}

func (e *engine) remove(ctx context.Context, id string) error {
	return e.client.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
}

// exec runs a command in a container, to its last byte and exit code.
func (e *engine) exec(ctx context.Context, id, cmd string) error {
	made, err := e.client.ContainerExecCreate(ctx, id, container.ExecOptions{
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
	if _, err := io.Copy(io.Discard, stream.Reader); err != nil {
		return err
	}
	state, err := e.client.ContainerExecInspect(ctx, made.ID)
	if err == nil && state.ExitCode != 0 {
		err = fmt.Errorf("%q ended with exit code %d", cmd, state.ExitCode)
	}
	return err
}

// initPid returns the host's pid of a box's first process. A box's container
// bears the box's id as its own, in its name or in a label.
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

// boxesOf returns the containers of a server's boxes, those that do not run too.
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
