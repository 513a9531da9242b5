package privatefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// otherUser owns files in tests; by convention it is the user nobody.
const otherUser = 65534

func write(t *testing.T, name string, mode os.FileMode) string {
	t.Helper()
	if err := errors.Join(os.WriteFile(name, []byte("text"), mode), os.Chmod(name, mode)); err != nil {
		t.Fatal(err)
	}
	return name
}

func mkdir(t *testing.T, name string, mode os.FileMode) string {
	t.Helper()
	if err := errors.Join(os.Mkdir(name, mode), os.Chmod(name, mode)); err != nil {
		t.Fatal(err)
	}
	return name
}

// wantError checks that an error names the file and says what is wrong; "" wants none.
func wantError(t *testing.T, err error, name, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name)) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

func TestReadRefusesWhatIsNotPrivate(t *testing.T) {
	top := t.TempDir()
	in := func(name string) string { return filepath.Join(top, name) }
	shown, open := mkdir(t, in("shown"), 0o700), mkdir(t, in("open"), 0o777)
	good := write(t, in("good"), 0o600)
	hard := write(t, in("hard"), 0o600)
	if err := errors.Join(os.Symlink(good, in("link")), os.Symlink(top, in("self")), os.Symlink(top, filepath.Join(open, "way")), os.Symlink(shown, in("inside")),
		os.Link(hard, in("hard2")), syscall.Mkfifo(in("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	opener := Opener{Exposed: []Exposed{{shown, "the workspace " + shown}}}
	for name, c := range map[string]struct{ file, want string }{
		"private":                    {good, ""},
		"over a link of one's own":   {in("self/good"), ""},
		"readable by the group":      {write(t, in("readable"), 0o640), "other users can open"},
		"writable by others":         {write(t, in("writable"), 0o602), "try: chmod 600"},
		"a link":                     {in("link"), "is a symbolic link, which is not followed"},
		"over a link in an open dir": {filepath.Join(open, "way", "good"), "contains the symbolic link " + filepath.Join(open, "way")},
		"in an open directory":       {write(t, filepath.Join(open, "file"), 0o600), "where other users can replace it (mode 0777); try: chmod"},
		"exposed":                    {write(t, filepath.Join(shown, "file"), 0o600), "lies in the workspace " + shown},
		"exposed through a link":     {in("inside/file"), "lies in the workspace " + shown},
		"a second hard link":         {hard, "has a second hard link"},
		"a pipe":                     {in("pipe"), "is a pipe or a socket, which stores nothing"},
		"a directory":                {top, "is a directory; name a file in it"},
		"a device":                   {os.DevNull, "is not a regular file"},
		"missing":                    {in("missing"), "does not exist; create it"},
		"in a missing directory":     {in("none/file"), "the directory " + in("none") + " does not exist; correct the path, or try: mkdir -p"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := opener.Read(c.file)
			wantError(t, err, filepath.Clean(c.file), c.want)
			if err == nil && text != "text" {
				t.Errorf("%s has %q", c.file, text)
			}
		})
	}
}

func TestAppendCreatesAndAcceptsDevices(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	for range 2 {
		f, err := Opener{}.Append(name)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString("line\n")
		f.Close()
	}
	if text, err := (Opener{}).Read(name); err != nil || text != "line\nline\n" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info.Mode(), err)
	}
	f, err := Opener{}.Append(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func TestFileOfAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can create files of another user")
	}
	for _, mode := range []os.FileMode{0o600, 0o644} {
		alien := write(t, filepath.Join(t.TempDir(), "alien"), mode)
		if err := os.Chown(alien, otherUser, otherUser); err != nil {
			t.Fatal(err)
		}
		_, err := Opener{}.Read(alien)
		wantError(t, err, alien, "belongs to user 65534, and warmbox runs as user 0")
		if err != nil && strings.Contains(err.Error(), "chmod") {
			t.Errorf("chmod does not help: %v", err)
		}
		_, err = ReadTrusted(alien)
		wantError(t, err, alien, "belongs to user 65534")
	}
}

func TestReadTrustedAllowsReadersOnly(t *testing.T) {
	dir := t.TempDir()
	for mode, want := range map[os.FileMode]string{0o600: "", 0o644: "", 0o666: "(mode 0666), and it decides what runs here; try: chmod go-w"} {
		name := write(t, filepath.Join(dir, mode.String()), mode)
		_, err := ReadTrusted(name)
		wantError(t, err, name, want)
	}
	if text, err := ReadTrusted(os.DevNull); err != nil || text != "" {
		t.Errorf("%s: %q, %v", os.DevNull, text, err)
	}
	large := write(t, filepath.Join(dir, "large"), 0o600)
	if err := os.Truncate(large, MaxSize+1); err != nil {
		t.Fatal(err)
	}
	_, err := ReadTrusted(large)
	wantError(t, err, large, "more than 1m bytes")
}

// The rule for files also holds for the directory of raw output.
func TestOwnDirectory(t *testing.T) {
	top := t.TempDir()
	in := func(name string) string { return filepath.Join(top, name) }
	work, open, real := mkdir(t, in("work"), 0o700), mkdir(t, in("open"), 0o777), mkdir(t, in("real"), 0o700)
	if err := errors.Join(os.Symlink(real, filepath.Join(open, "way")), os.Symlink(real, in("link"))); err != nil {
		t.Fatal(err)
	}
	opener := Opener{Exposed: []Exposed{{work, "the workspace " + work}, {in("real/mounted"), "a mount"}}}
	for name, c := range map[string]struct{ dir, want string }{
		"exists":                     {real, ""},
		"is created":                 {in("new/logs"), ""},
		"in the workspace":           {in("work/logs"), "lies in the workspace"},
		"in a mount":                 {in("real/mounted"), "lies in a mount"},
		"open to others":             {open, "other users can write to " + open + " (mode 0777); try: chmod go-w"},
		"a link":                     {in("link"), "is a symbolic link, which is not followed"},
		"over a link in an open dir": {filepath.Join(open, "way", "logs"), "contains the symbolic link"},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, opener.MkdirAll(c.dir), c.dir, c.want) })
	}
}
