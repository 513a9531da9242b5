package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// otherUser owns files in tests: nobody, by convention.
const otherUser = 65534

func TestPrivateFileOfAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of others")
	}
	alien := filepath.Join(t.TempDir(), "alien")
	if err := errors.Join(os.WriteFile(alien, nil, 0o600), os.Chmod(alien, 0o600), os.Chown(alien, otherUser, otherUser)); err != nil {
		t.Fatal(err)
	}
	if _, err := new(Config).openPrivate(alien, os.O_RDONLY); err == nil || !strings.Contains(err.Error(), "belongs to user 65534, and warmbox runs as user 0") {
		t.Errorf("a file of another user: %v", err)
	}
	if err := os.Chmod(alien, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := new(Config).openPrivate(alien, os.O_RDONLY); err == nil || strings.Contains(err.Error(), "chmod") {
		t.Errorf("a readable file of another user: %v", err)
	}
}

func TestOwnDirectory(t *testing.T) {
	top := t.TempDir()
	work, open, real := filepath.Join(top, "work"), filepath.Join(top, "open"), filepath.Join(top, "real")
	if err := errors.Join(os.Mkdir(work, 0o700), os.Mkdir(open, 0o777), os.Chmod(open, 0o777), os.Mkdir(real, 0o700),
		os.Symlink(real, filepath.Join(open, "way")), os.Symlink(real, filepath.Join(top, "link"))); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		filepath.Join(work, "logs"):        "lies in the workspace",
		open:                               "may be written to by other users (mode 0777); try: chmod go-w",
		filepath.Join(top, "link"):         "is a symbolic link, which is not followed",
		filepath.Join(open, "way", "logs"): "leads over the symbolic link",
		filepath.Join(real, "mounted"):     "which boxes see as /data",
		real:                               "",
		filepath.Join(top, "new/logs"):     "",
	} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var c Config
			c.Workspace, c.Mounts = work, []mountSetting{{Source: filepath.Join(real, "mounted"), Target: "/data", Mode: "rw"}}
			err := c.privateDir(dir)
			if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir)) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}
