package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	pathpkg "path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
)

// facts say of an image what the engine does not. They never change for an id, so
// each image is inspected once.
type facts struct {
	Form   int // factsForm; another value means that another version stored them
	ID     string
	Arch   string
	Path   string   // its PATH
	Env    []string // names of the variables that it sets
	Labels []string // names of its labels that look like ours
	Bad    string   // a path that must be a directory to mount over or in, and is none; "" for none
	Passwd string
	Group  string
	Odd    bool // its passwd or group is there and is no small plain file

	Home    bool // it has /home/agent, of
	HomeUID int
	HomeGID int
}

// factsForm changes with what the facts say.
const factsForm = 2

// A factsCache remembers the facts about images, also on disk.
type factsCache struct {
	dirs dirs

	mu    sync.Mutex // held also while an image is inspected, so that this happens once
	known map[string]facts
}

func newFactsCache(d dirs) *factsCache { return &factsCache{dirs: d, known: make(map[string]facts)} }

// get returns the facts about an image, with inspect where the cache has none.
func (c *factsCache) get(id string, inspect func() (facts, error)) (facts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.known[id]
	if ok {
		return f, nil
	}
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(id, "-")
	if !c.dirs.load("images", name, &f) || f.ID != id || f.Form != factsForm {
		var err error
		if f, err = inspect(); err != nil {
			return f, fmt.Errorf("inspect the image: %w", err)
		}
		c.dirs.store("images", name, f)
	}
	c.known[id] = f
	return f, nil
}

// facts returns the facts about an image.
func (l *Launcher) facts(ctx context.Context, e *engine, img image.InspectResponse) (facts, error) {
	return l.images.get(img.ID, func() (facts, error) { return l.inspect(ctx, e, img) })
}

// inspect reads a few files of an image, through a container that never runs.
func (l *Launcher) inspect(ctx context.Context, e *engine, img image.InspectResponse) (facts, error) {
	f := facts{Form: factsForm, ID: img.ID, Arch: img.Architecture}
	if img.Config != nil {
		f.Path, f.Env = environment(img.Config.Env)
		f.Labels = ourLabels(img.Config.Labels)
	}
	err := l.withStopped(ctx, e, f, nil, func(id string) error {
		var all sync.WaitGroup
		var errs [4]error
		var odd [2]bool
		all.Go(func() { f.Passwd, odd[0], errs[0] = readTable(ctx, e, id, "/etc/passwd") })
		all.Go(func() { f.Group, odd[1], errs[1] = readTable(ctx, e, id, "/etc/group") })
		all.Go(func() { errs[2] = f.readHome(ctx, e, id) })
		all.Go(func() { f.Bad, errs[3] = findBad(ctx, e, id) })
		all.Wait()
		f.Odd = odd[0] || odd[1]
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	})
	return f, err
}

// maxPath bounds an image's PATH.
const maxPath = 4096

// environment returns an image's PATH and the names of all variables that it sets.
func environment(env []string) (path string, names []string) {
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if name == "PATH" && len(value) <= maxPath && value == sanitize(value, maxPath) {
			path = searchPath(value)
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return path, names
}

// searchPath returns the directories of a PATH that commands cannot write, followed
// by those in home directories. So tools of the image in a home directory are found,
// and what a command leaves there takes the place of no program.
func searchPath(path string) string {
	var first, last []string
	for dir := range strings.SplitSeq(path, ":") {
		switch dir = pathpkg.Clean(dir); {
		case below(dir, homeParent):
			last = append(last, dir)
		case pathpkg.IsAbs(dir) && !slices.ContainsFunc([]string{workspaceDir, "/tmp", "/dev", "/proc"}, func(w string) bool { return below(dir, w) }):
			first = append(first, dir)
		}
	}
	return strings.Join(append(first, last...), ":")
}

// below reports whether a clean path is dir or lies in it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

func ourLabels(labels map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(labels)), func(name string) bool { return !strings.HasPrefix(name, labelPrefix) })
}

// findBad returns the first path that a box mounts something at, or in, and that is
// not a directory in the image. A symbolic link there would move our mounts below a
// directory that commands can rename.
func findBad(ctx context.Context, e *engine, id string) (string, error) {
	for _, path := range []string{"/opt", agentDir, "/run", socketDir, homeParent, home, workspaceDir, "/tmp", "/etc"} {
		stat, err := e.ContainerStatPath(ctx, id, path)
		switch {
		case errdefs.IsNotFound(err):
		case err != nil:
			return "", err
		case !stat.Mode.IsDir():
			return path, nil
		}
	}
	return "", nil
}

// maxTable bounds a passwd or group file.
const maxTable = 256 << 10

// readTable reads a passwd or group file of the image, "" where there is none.
func readTable(ctx context.Context, e *engine, id, path string) (text string, odd bool, err error) {
	body, h, err := open(ctx, e, id, path)
	if body == nil {
		return "", false, err
	}
	defer body.Close()
	if h.Typeflag != tar.TypeReg || h.Size > maxTable {
		return "", true, nil
	}
	data, err := io.ReadAll(io.LimitReader(body, maxTable))
	return string(data), false, err
}

// readHome reads who owns the image's /home/agent.
func (f *facts) readHome(ctx context.Context, e *engine, id string) error {
	body, h, err := open(ctx, e, id, home)
	if body == nil {
		return err
	}
	f.Home, f.HomeUID, f.HomeGID = h.Typeflag == tar.TypeDir, h.Uid, h.Gid
	return body.Close()
}

// open opens a file of a container, and returns nil where there is none.
func open(ctx context.Context, e *engine, id, path string) (io.ReadCloser, *tar.Header, error) {
	body, _, err := e.CopyFromContainer(ctx, id, path)
	if errdefs.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	r := tar.NewReader(body)
	h, err := r.Next()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read %s: %w", path, err), body.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{r, body}, h, nil
}
