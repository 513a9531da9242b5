package boxtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
)

// testLife checks what a closed box leaves, and who may use a box.
func testLife(t *testing.T, s *suite) {
	t.Run("close", func(t *testing.T) {
		box := s.newBox(t)
		run := start(t, box, sandbox.Command{Cmd: "echo up; trap '' TERM; setsid sleep 4242 & sleep 4242"})
		printed(t, run, "up")
		box.Close()
		if r := wait(t, run); r.Status != sandbox.Killed || r.stdout != "up\n" {
			t.Errorf("%s, %q", r.Status, r.stdout)
		}
		if _, err := box.Exec(t.Context(), sandbox.Command{Cmd: "true"}); err == nil || !strings.Contains(err.Error(), "was stopped") {
			t.Errorf("exec in a closed box: %v", err)
		}
		box.Close()
	})
	t.Run("named shells are removed with their box", func(t *testing.T) {
		if s.isolated {
			t.Skip("the files are in the box")
		}
		box := s.newBox(t)
		// The trap that saves names the file.
		r := do(t, box, sandbox.Command{Shell: "dev", Cmd: `file=$(trap -p EXIT); file=${file#*8>|}; echo -n ${file%/dev~*}`})
		if _, err := os.Stat(filepath.Join(r.stdout, "dev")); err != nil {
			t.Fatalf("%q: %v", r.stdout, err)
		}
		box.Close()
		if _, err := os.Stat(r.stdout); !os.IsNotExist(err) {
			t.Errorf("%s still exists, %v", r.stdout, err)
		}
	})
	t.Run("owners", func(t *testing.T) {
		if _, err := s.manager.Box(sandbox.Owner{Principal: "another"}, s.box.ID); err == nil {
			t.Error("a box of another owner is returned")
		}
		if b, err := s.manager.Box(sandbox.Owner{Principal: "boxtest"}, s.box.ID); err != nil || b != s.box {
			t.Errorf("%v, %v", b, err)
		}
	})
}
