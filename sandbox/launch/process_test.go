package launch_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
	"github.com/warmbox/warmbox/sandbox/launch"
)

func TestMain(m *testing.M) { boxtest.Main(m) }

func process(t *testing.T) *launch.Process {
	if _, release, err := launch.OwnAgent(t.Context()); err != nil {
		t.Skipf("no embedded agent: %v", err)
	} else {
		release()
	}
	return &launch.Process{Agent: launch.OwnAgent, Workspaces: filepath.Join(t.TempDir(), "workspaces")}
}

// TestBox runs the suite on the embedded agent with spare shells. Package sandbox runs it
// with new shells.
func TestBox(t *testing.T) { boxtest.Run(t, process(t), sandbox.Spec{Spares: 1}) }

// TestPrograms checks that programs are recorded, and in the weekly run that recording them
// changes nothing else.
func TestPrograms(t *testing.T) {
	boxtest.Programs(t, process(t), sandbox.Spec{Spares: 1})
	t.Run("box", func(t *testing.T) {
		weekly.Only(t)
		boxtest.Run(t, process(t), sandbox.Spec{Spares: 1, AuditPrograms: true})
	})
}

func TestPlaceNotesMissingIsolation(t *testing.T) {
	m := boxtest.Manager(t, process(t), sandbox.Spec{})
	box, _, err := m.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(box.Place.Notes, " "); !strings.Contains(notes, "no isolation") {
		t.Errorf("notes %q", notes)
	}
}

// A workspace that was created for a box is removed with the box if it is empty, and
// stays otherwise.
func TestOwnWorkspaceIsRemovedOnlyIfEmpty(t *testing.T) {
	m := boxtest.Manager(t, process(t), sandbox.Spec{})
	for cmd, want := range map[string]int{"true": 0, "echo x > f": 1} {
		box, _, err := m.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
		if err != nil {
			t.Fatal(err)
		}
		run, err := box.Exec(t.Context(), sandbox.Command{Cmd: cmd})
		if err != nil {
			t.Fatal(err)
		}
		<-run.Done()
		box.Close()
		if files, _ := filepath.Glob(box.Place.Workspace); len(files) != want {
			t.Errorf("after %q the workspace exists %d times, want %d", cmd, len(files), want)
		}
	}
}

// Exec and Start fail with WorkspaceGone while the directory of a workspace is missing,
// and succeed once it is back.
func TestMissingWorkspaceIsReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workspace")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	m := boxtest.Manager(t, process(t), sandbox.Spec{Workspace: dir})
	box, _, err := m.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	exec := func() error {
		run, err := box.Exec(t.Context(), sandbox.Command{Cmd: "true"})
		if err != nil {
			return err
		}
		<-run.Done()
		return run.Exit().Err
	}
	start := func() error {
		_, _, err := m.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
		return err
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{"exec": exec, "start": start} {
		err := do()
		if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.WorkspaceGone || !strings.Contains(e.Text, dir) || e.Hint == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(exec(), start()); err != nil {
		t.Error(err)
	}
}
