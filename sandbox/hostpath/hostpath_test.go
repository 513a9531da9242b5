package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lay creates a directory and in it: a directory for each name that ends in a slash, a
// link for each with an arrow, and a file for each other one. It returns the directory's
// path without links.
func lay(t *testing.T, names ...string) string {
	t.Helper()
	top := Real(t.TempDir())
	for _, name := range names {
		var err error
		link, target, isLink := strings.Cut(name, " -> ")
		path := filepath.Join(top, link)
		switch {
		case isLink:
			err = os.Symlink(strings.ReplaceAll(target, "TOP", top), path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return top
}

func none() ([]string, error) { return nil, nil }

func TestOpenFollowsNoLink(t *testing.T) {
	top := lay(t, "a/b/", "a/file", "a/link -> b", "up -> TOP/a")
	for _, c := range []struct {
		name, path string
		link       string // the link that is refused, "" if there is none
	}{
		{"the top directory", "", ""},
		{"a directory", "a/b", ""},
		{"a file", "a/file", ""},
		{"a link", "a/link", "a/link"},
		{"an absolute link", "up", "up"},
		{"below a link", "up/b", "up"},
		{"a link below a link", "up/link", "up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Open(filepath.Join(top, c.path))
			if found, _ := errors.AsType[*LinkError](err); c.link != "" && (found == nil || found.Path != filepath.Join(top, c.link)) || c.link == "" && err != nil {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			defer f.Close()
			defer f.Close() // idempotent
			info, err := os.Lstat(f.Path)
			again, aerr := Open(f.Path)
			if err := errors.Join(err, aerr); err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if f.Mode != info.Mode() || f.ID != again.ID || f.ID == (ID{}) || f.UID != os.Getuid() {
				t.Errorf("opened %+v", f)
			}
		})
	}
}

func TestOpenRefusesUncleanAndMissingPaths(t *testing.T) {
	top := lay(t, "a/b/", "a/file")
	for _, name := range []string{"a/b", top + "/", top + "/a/../a", ""} {
		if f, err := Open(name); err == nil {
			t.Errorf("%q: opened %s, want an error", name, f.Path)
		}
	}
	if _, err := Open(filepath.Join(top, "a/file/x")); err == nil {
		t.Error("a path below a file was opened")
	}
	if _, err := Open(filepath.Join(top, "absent/x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// Links that a command can have made are not followed; others are.
func TestLinkThatABoxCouldMakeIsRefused(t *testing.T) {
	top := lay(t, "work/sub/", "other/in/", "work/link -> ../other", "work/chain -> sub/../link", "out -> work/sub", "over -> TOP/work/link", "loop -> loop")
	for path, refused := range map[string]bool{
		"work": false, "work/sub": false, "out": false, "work/link": true, "work/link/in": true, "work/chain": true, "over": true,
		"work/sub/../link": true, // filepath.Abs cleans it first
	} {
		t.Run(path, func(t *testing.T) {
			g := &Guard{Wrote: []string{filepath.Join(top, "work")}}
			real, err := g.Workspace(filepath.Join(top, path), true, nil)
			if r, ok := errors.AsType[*Refusal](err); refused != ok || ok && (!strings.Contains(r.Error(), "is a symbolic link") || r.Hint == "") {
				t.Errorf("%q, %v, want it refused: %v", real, err, refused)
			}
			want, _ := filepath.EvalSymlinks(filepath.Join(top, path))
			if real, err := new(Guard).Workspace(filepath.Join(top, path), true, nil); err != nil || real != want {
				t.Errorf("where no box could write: %q, %v", real, err)
			}
		})
	}
	if _, err := new(Guard).Workspace(filepath.Join(top, "loop"), true, nil); err == nil {
		t.Error("a link to itself was resolved")
	}
}

// A path is opened at a launch only if it is still the admitted file, or a replacement
// that no box can have made.
func TestReplacedPathIsCheckedAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(dir string) error
		others []string // relative to the top
		want   string   // "" opens
	}{
		{"nothing", func(string) error { return nil }, nil, ""},
		{"nothing, within another's", func(string) error { return nil }, []string{"p"}, ""},
		{"made again", again, nil, ""},
		{"made again, beside another's", again, []string{"p/su", "p/sub", "p/sub/x"}, ""},
		{"made again, within another's", again, []string{"x", "p"}, "boxes can write"},
		{"a link", link, nil, "is now a symbolic link"},
		{"a link above", func(dir string) error {
			return errors.Join(os.Rename(filepath.Dir(dir), filepath.Dir(dir)+"2"), os.Symlink(filepath.Dir(dir)+"2", filepath.Dir(dir)))
		}, nil, "is now a symbolic link"},
		{"a file", func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) }, nil, "not a directory"},
		{"gone", os.Remove, nil, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := lay(t, "p/sub/", "secret/")
			dir := filepath.Join(top, "p", "sub")
			g := new(Guard)
			if _, err := g.Workspace(dir, true, nil); err != nil {
				t.Fatal(err)
			}
			if err := c.change(dir); err != nil {
				t.Fatal(err)
			}
			others := func() (list []string, err error) {
				for _, o := range c.others {
					list = append(list, filepath.Join(top, o))
				}
				return list, nil
			}
			for range 2 { // the result stays the same
				f, err := g.Open(dir, others)
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if err == nil {
					f.Close()
				}
			}
		})
	}
	if _, err := new(Guard).Open(lay(t), none); err == nil || !strings.Contains(err.Error(), "was not in the configuration") {
		t.Errorf("a path that was not admitted: %v", err)
	}
}

// again replaces a directory by a new one. The first is only renamed, so that its inode
// is not reused.
func again(dir string) error {
	return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755))
}

func link(dir string) error {
	return errors.Join(os.Rename(dir, dir+".old"), os.Symlink("../secret", dir))
}

// A directory that now belongs to another user is refused.
func TestReplacementOfAnotherOwnerIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give a directory away")
	}
	dir := filepath.Join(lay(t, "ws/"), "ws")
	g := new(Guard)
	if _, err := g.Workspace(dir, true, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(again(dir), os.Chown(dir, 1234, 1234)); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Open(dir, none); err == nil || !strings.Contains(err.Error(), "belongs to user 1234") {
		t.Errorf("got %v", err)
	}
}

// A mount is refused if commands of the same server's boxes could replace it, or if it
// would open what a workspace protects.
func TestOverlappingPathsAreRefused(t *testing.T) {
	const ro, rw = false, true
	type at struct {
		path     string
		writable bool
	}
	for _, c := range []struct {
		name      string
		workspace at
		mounts    []at
		want      string // of the last mount
	}{
		{"apart", at{"ws", rw}, []at{{"a", ro}, {"b", rw}}, ""},
		{"a name that begins alike", at{"ws", rw}, []at{{"ws2", ro}}, ""},
		{"in the workspace", at{"ws", rw}, []at{{"ws/in", rw}}, "it lies in"},
		{"in the workspace, to read", at{"ws", rw}, []at{{"ws/in", ro}}, "it lies in"},
		{"the workspace itself", at{"ws", rw}, []at{{"ws", rw}}, "it lies in"},
		{"the workspace itself, to read", at{"ws", rw}, []at{{"ws", ro}}, "it lies in"},
		{"in a workspace that is only read", at{"ws", ro}, []at{{"ws/in", ro}}, ""},
		{"around the workspace", at{"ws/in", rw}, []at{{"ws", rw}}, "lies in it"},
		{"around the workspace, to read", at{"ws/in", rw}, []at{{"ws", ro}}, ""},
		{"in another mount", at{"ws", rw}, []at{{"a", rw}, {"a/in", ro}}, "it lies in"},
		{"around another mount", at{"ws", rw}, []at{{"a/in", ro}, {"a", rw}}, "lies in it"},
		{"in a mount that is only read", at{"ws", rw}, []at{{"a", ro}, {"a/in", ro}}, ""},
		{"one at two places", at{"ws", rw}, []at{{"a", rw}, {"a", rw}}, ""},
		{"one at two places, once to read", at{"ws", rw}, []at{{"a", rw}, {"a", ro}}, "it lies in"},
		{"over a link in the workspace", at{"ws", rw}, []at{{"ws/link", ro}}, "is a symbolic link"},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := lay(t, "ws/in/", "ws2/", "a/in/", "b/", "ws/link -> ../a")
			g := new(Guard)
			if _, err := g.Workspace(filepath.Join(top, c.workspace.path), c.workspace.writable, nil); err != nil {
				t.Fatal(err)
			}
			var err error
			for _, m := range c.mounts {
				if err != nil {
					t.Fatal(err)
				}
				_, err = g.Mount(filepath.Join(top, m.path), m.writable)
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A mount is refused at the launch while boxes of another server can write it, unless
// both may write the same directory.
func TestMountThatOtherServersWriteIsRefused(t *testing.T) {
	for _, c := range []struct {
		name     string
		others   string // what boxes of another server can write
		writable bool   // the mount, m
		refused  bool
	}{
		{"same directory, read-only", "m", false, true},
		{"same directory, both write", "m", true, false},
		{"directory above, read-only", ".", false, true},
		{"directory above, both write", ".", true, true},
		{"directory in it", "m/in", false, false},
		{"name with the same beginning", "mm", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := lay(t, "m/in/")
			g := new(Guard)
			dir, err := g.Mount(filepath.Join(top, "m"), c.writable)
			if err != nil {
				t.Fatal(err)
			}
			f, err := g.Open(dir, func() ([]string, error) { return []string{filepath.Join(top, c.others)}, nil })
			if c.refused != (err != nil && strings.Contains(err.Error(), "boxes of another server can write")) {
				t.Errorf("%v, want it refused: %v", err, c.refused)
			}
			if f != nil {
				f.Close()
			}
			unknown := errors.New("no engine")
			if _, err := g.Open(dir, func() ([]string, error) { return nil, unknown }); !errors.Is(err, unknown) {
				t.Errorf("without a list of other boxes: %v", err)
			}
		})
	}
}

func TestMarkIsFoundAndRemoved(t *testing.T) {
	dir := lay(t)
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	name, remove, err := f.Mark()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, name)); err != nil || !filepath.IsLocal(name) {
		t.Errorf("%q: %v", name, err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestPathThatTheUserCannotReadIsRefused: the engine is root and would mount it.
func TestPathThatTheUserCannotReadIsRefused(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	top := lay(t, "closed/", "unsearchable/", "file")
	for name, mode := range map[string]fs.FileMode{"closed": 0, "unsearchable": 0o400, "file": 0o200} {
		path := filepath.Join(top, name)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(path, 0o700) })
		g := new(Guard)
		_, err := g.Mount(path, false)
		if name != "file" {
			_, err2 := g.Workspace(path, false, nil)
			err = errors.Join(err, err2)
		}
		if err == nil || strings.Count(err.Error(), "may not read it yourself") != strings.Count(err.Error(), "cannot be") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
