package docker

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"maps"
	pathpkg "path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
)

// Facts are what is to be known of an image beyond what the engine says of it.
// They never change for an id, so they are learnt once.
type facts struct {
	Form   int // factsForm, or what is stored was learnt by another version
	ID     string
	Arch   string
	Path   string   // its PATH
	Env    []string // names of the variables that it sets
	Labels []string // names of its labels that look like ours
	Bad    string   // what is no directory, and must be one to mount over or in; "" for nothing
	Passwd string
	Group  string
	Odd    bool // its passwd or group is there and no small plain file

	Home    bool // it has /home/agent, of
	HomeUID int
	HomeGID int
}

// factsForm changes with what is learnt.
const factsForm = 2

const (
	maxTable = 256 << 10 // bytes of a passwd or group file
	maxPath  = 4096      // bytes of PATH
)

// facts returns what is to be known of an image, looking into it where this
// was never done.
func (l *Launcher) facts(ctx context.Context, e *engine, img image.InspectResponse) (facts, error) {
	l.looks.Lock()
	defer l.looks.Unlock()
	l.mu.Lock()
	f, ok := l.images[img.ID]
	l.mu.Unlock()
	if ok {
		return f, nil
	}
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(img.ID, "-")
	if !l.load("images", name, &f) || f.ID != img.ID || f.Form != factsForm {
		var err error
		if f, err = l.look(ctx, e, img); err != nil {
			return f, fmt.Errorf("look into the image: %w", err)
		}
		l.store("images", name, f)
	}
	l.mu.Lock()
	l.images[img.ID] = f
	l.mu.Unlock()
	return f, nil
}

// look copies a few things out of a container that never runs.
func (l *Launcher) look(ctx context.Context, e *engine, img image.InspectResponse) (facts, error) {
	f := facts{Form: factsForm, ID: img.ID, Arch: img.Architecture}
	if img.Config != nil {
		f.Path, f.Env = environment(img.Config.Env)
		f.Labels = ourLabels(img.Config.Labels)
	}
	err := l.withIdle(ctx, e, f, nil, func(id string) error {
		var all sync.WaitGroup
		var errs [4]error
		var odd [2]bool
		all.Go(func() { f.Passwd, odd[0], errs[0] = table(ctx, e, id, "/etc/passwd") })
		all.Go(func() { f.Group, odd[1], errs[1] = table(ctx, e, id, "/etc/group") })
		all.Go(func() { errs[2] = f.home(ctx, e, id) })
		all.Go(func() { f.Bad, errs[3] = bad(ctx, e, id) })
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

// environment returns an image's PATH and the names of all that it sets.
func environment(env []string) (path string, names []string) {
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if name == "PATH" && len(value) <= maxPath && value == clean(value, maxPath) {
			path = searchPath(value)
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return path, names
}

// searchPath returns of a PATH what commands cannot write, and last what is in
// the home directory: tools of the image are found there, and nothing that a
// command leaves there takes the place of a program.
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

// below reports whether a clean path is dir or in it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

func ourLabels(labels map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(labels)), func(name string) bool { return !strings.HasPrefix(name, labelPrefix) })
}

// bad returns the first path that a box mounts something at, or in, and that is
// something else than a directory in the image. A link there would have our
// mounts lie where commands can rename what is above them.
func bad(ctx context.Context, e *engine, id string) (string, error) {
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

// table reads a small file of the image, "" where there is none.
func table(ctx context.Context, e *engine, id, path string) (text string, odd bool, err error) {
	body, _, err := e.CopyFromContainer(ctx, id, path)
	if errdefs.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	defer body.Close()
	r := tar.NewReader(body)
	h, err := r.Next()
	if err != nil {
		return "", false, fmt.Errorf("read %s: %w", path, err)
	}
	if h.Typeflag != tar.TypeReg || h.Size > maxTable {
		return "", true, nil
	}
	data, err := io.ReadAll(io.LimitReader(r, maxTable))
	return string(data), false, err
}

// home finds out whose the image's /home/agent is.
func (f *facts) home(ctx context.Context, e *engine, id string) error {
	body, _, err := e.CopyFromContainer(ctx, id, home)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer body.Close()
	h, err := tar.NewReader(body).Next()
	if err != nil {
		return fmt.Errorf("read %s: %w", home, err)
	}
	f.Home, f.HomeUID, f.HomeGID = h.Typeflag == tar.TypeDir, h.Uid, h.Gid
	return nil
}

// identity returns the image's passwd and group with lines for a user, and
// whether they had to be changed for that.
func (f facts) identity(uid, gid int) (passwd, group string, changed bool) {
	passwd, group = f.Passwd, f.Group
	if !slices.Contains(column(passwd, 2), strconv.Itoa(uid)) {
		name := free("agent", uid, column(passwd, 0))
		passwd = line(passwd, fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh", name, uid, gid, home))
		changed = true
	}
	if !slices.Contains(column(group, 2), strconv.Itoa(gid)) {
		group = line(group, fmt.Sprintf("%s:x:%d:", free("agent", gid, column(group, 0)), gid))
		changed = true
	}
	return passwd, group, changed
}

// name returns the first name of a user, "" if there is none.
func name(passwd string, uid int) string {
	names, uids := column(passwd, 0), column(passwd, 2)
	if i := slices.Index(uids, strconv.Itoa(uid)); i >= 0 && i < len(names) {
		return clean(names[i], 64)
	}
	return ""
}

// column returns one of the first three fields of every line that has them.
func column(table string, n int) (fields []string) {
	for row := range strings.Lines(table) {
		if f := strings.Split(strings.TrimSuffix(row, "\n"), ":"); len(f) > 2 {
			fields = append(fields, f[n])
		}
	}
	return fields
}

// free returns a name that is not taken.
func free(name string, id int, taken []string) string {
	for slices.Contains(taken, name) {
		name += strconv.Itoa(id)
	}
	return name
}

func line(table, row string) string {
	if table != "" && !strings.HasSuffix(table, "\n") {
		table += "\n"
	}
	return table + row + "\n"
}
