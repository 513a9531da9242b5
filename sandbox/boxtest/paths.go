package boxtest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/hostpath"
)

// testPaths has a command of one box replace the workspace of another by a link. Boxes
// that isolate keep their workspace. No box is started with the target of the link. When
// the directory is back, boxes start as before.
func testPaths(t *testing.T, s *suite) {
	outer := filepath.Join(hostpath.Real(t.TempDir()), "project")
	inner, secret := filepath.Join(outer, "sub"), filepath.Join(filepath.Dir(outer), "secret")
	for _, dir := range []string{outer, inner, secret} {
		if err := errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(secret, "key"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	guard := new(hostpath.Guard)
	if _, err := guard.Workspace(inner, true, nil); err != nil {
		t.Fatal(err)
	}
	above, below := s.manager.Defaults, s.manager.Defaults
	above.Workspace, below.Workspace, below.Paths = outer, inner, guard
	attacker := (&suite{manager: Manager(t, s.manager.Launcher, above)}).newBox(t)
	victim := &suite{manager: Manager(t, s.manager.Launcher, below)}
	running := victim.newBox(t)
	want(t, sh(t, running, "echo mine >file; ls"), 0, "file\n")

	want(t, sh(t, attacker, "mv sub away && ln -s ../secret sub"), 0, "")
	box, _, err := victim.manager.Start(t.Context(), sandbox.Owner{Principal: "boxtest"}, sandbox.Request{})
	wantError(t, err, sandbox.InvalidArgument, "is now a symbolic link")
	if box != nil {
		t.Errorf("a box with %q", sh(t, box, "ls").stdout)
	}
	if s.isolated { // without isolation its commands follow the name
		want(t, sh(t, running, "cat file"), 0, "mine\n")
	}

	want(t, sh(t, attacker, "rm sub && mv away sub"), 0, "")
	want(t, sh(t, victim.newBox(t), "cat file"), 0, "mine\n")
}
