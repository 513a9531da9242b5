package docker

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	"github.com/google/go-cmp/cmp"

	"github.com/warmbox/warmbox/sandbox"
)

// createContainer creates a container with labels that no launcher created.
func createContainer(t *testing.T, e *engine, command []string, labels map[string]string) (id string) {
	t.Helper()
	created, err := e.create(t.Context(),
		&container.Config{Image: DefaultImage, Entrypoint: command, Labels: labels},
		&container.HostConfig{NetworkMode: "none", Mounts: []mount.Mount{volumeMount("", homeParent, false, true), bindMount(t.TempDir(), agentDir, true)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := e.ContainerRemove(context.Background(), created.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !gone(err) {
			t.Error(err)
		}
	})
	return created.ID
}

func containerExists(t *testing.T, e *engine, container string) bool {
	t.Helper()
	_, err := e.ContainerInspect(t.Context(), container)
	if err != nil && !errdefs.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

func labelsOf(l *Launcher, more map[string]string) map[string]string {
	labels := map[string]string{labelPrefix + "host": l.instance.hostLabel(), labelPrefix + "instance": l.instance.id, labelPrefix + "box": "left"}
	maps.Copy(labels, more)
	return labels
}

func sweep(t *testing.T, l *Launcher, all bool) (names []string) {
	t.Helper()
	took, err := l.Sweep(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range took {
		t.Logf("%s %s: %s", s.What, s.Name, s.Why)
		names = append(names, s.What+" "+s.Name)
	}
	slices.Sort(names)
	return names
}

func TestSweepRemovesLeftovers(t *testing.T) {
	l := newLauncher(t, Config{})
	dead := otherProcess(t, l)
	left := launch(t, dead, sandbox.Spec{})
	made := anonymousVolumes(t, left)
	never := createContainer(t, left.engine, []string{agentPath, "serve"}, labelsOf(dead, nil))
	look := createContainer(t, left.engine, []string{agentPath}, labelsOf(dead, map[string]string{labelPrefix + "box": ""}))
	_, lock, err := tempSocketDir()
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
	old := volumePrefix + "0123456789abcdef"
	if _, err := left.engine.VolumeCreate(t.Context(), volume.CreateOptions{Name: old, Labels: map[string]string{labelPrefix + "agent": old, labelPrefix + "host": dead.instance.hostLabel()}}); err != nil {
		t.Fatal(err)
	}
	if got := sweep(t, l, false); len(got) != 1 {
		t.Errorf("of a living launcher a sweep removes %v, want the directory alone", got)
	}
	sockets, lock, err := tempSocketDir()
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
	killInstance(t, dead)
	want := []string{"box " + left.id, "box left", "container " + look[:12], "directory " + sockets, "volume " + old}
	slices.Sort(want)
	if diff := cmp.Diff(want, sweep(t, l, false)); diff != "" {
		t.Error(diff)
	}
	for _, id := range []string{left.container, never, look} {
		if containerExists(t, left.engine, id) {
			t.Errorf("container %.12s is still there", id)
		}
	}
	for _, name := range made {
		if _, err := left.engine.VolumeInspect(t.Context(), name); !errdefs.IsNotFound(err) {
			t.Errorf("volume %s is left: %v", name, err)
		}
	}
	for _, path := range []string{sockets, left.place.Workspace, dead.instance.alive.path} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	if got := sweep(t, l, false); len(got) > 0 {
		t.Errorf("a second sweep removes %v", got)
	}
}

// A sweep leaves the containers of others alone, whatever their labels.
func TestSweepLeavesOthersAlone(t *testing.T) {
	l := newLauncher(t, Config{})
	living := otherProcess(t, l)
	box := launch(t, living, sandbox.Spec{})
	serve := []string{agentPath, "serve"}
	none := labelsOf(living, map[string]string{labelPrefix + "instance": "ended"})
	other := maps.Clone(none)
	other[labelPrefix+"host"] = "0123456789abcdef"
	hostless := maps.Clone(none)
	hostless[labelPrefix+"host"] = ""
	stays := map[string]string{
		"a living process's":  box.container,
		"another host's":      createContainer(t, box.engine, serve, other),
		"without a host":      createContainer(t, box.engine, serve, hostless),
		"without our labels":  createContainer(t, box.engine, serve, nil),
		"of an image of ours": createContainer(t, box.engine, []string{"/bin/sh", "-c", agentPath}, none),
	}
	foreign := volumePrefix + "fedcba9876543210"
	if _, err := box.engine.VolumeCreate(t.Context(), volume.CreateOptions{Name: foreign, Labels: map[string]string{labelPrefix + "agent": foreign}}); err != nil {
		t.Fatal(err)
	}
	defer box.engine.VolumeRemove(context.Background(), foreign, false)
	for _, all := range []bool{false, true} {
		if all {
			delete(stays, "a living process's")
		}
		sweep(t, l, all)
		for whose, id := range stays {
			if !containerExists(t, box.engine, id) {
				t.Errorf("all=%v: what is %s was removed", all, whose)
			}
		}
	}
	if containerExists(t, box.engine, box.container) {
		t.Error("the box of a living process stays, though all were to be removed")
	}
	if _, err := box.engine.VolumeInspect(t.Context(), foreign); err != nil {
		t.Errorf("a volume of another host: %v", err)
	}
}

// A sweep removes the homes of boxes that are gone: an engine forgets the volume of a
// container that it removes while it starts or stops. It leaves the homes of other
// boxes and of other hosts.
func TestSweepRemovesHomesOfGoneBoxes(t *testing.T) {
	l := newLauncher(t, Config{})
	box := launch(t, l, sandbox.Spec{})
	l.instance.sweeps.Wait() // started by its launch
	home := func(name string, labels map[string]string) string {
		name = "warmbox-test-home-" + name
		if _, err := box.engine.VolumeCreate(t.Context(), volume.CreateOptions{Name: name, Labels: labels}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { box.engine.VolumeRemove(context.Background(), name, true) })
		return name
	}
	const isHome, isOf = labelPrefix + "home", labelPrefix + "host"
	left := home("left", map[string]string{isHome: "gone", isOf: l.instance.hostLabel()})
	stays := append(anonymousVolumes(t, box),
		home("of-another-host", map[string]string{isHome: "gone", isOf: "0123456789abcdef"}),
		home("without-a-host", map[string]string{isHome: "gone"}),
		home("that-is-none", map[string]string{isOf: l.instance.hostLabel()}))
	if diff := cmp.Diff([]string{"volume " + left}, sweep(t, l, false)); diff != "" {
		t.Error(diff)
	}
	for _, name := range stays {
		if _, err := box.engine.VolumeInspect(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
}

// A sweep of volumes ends as soon as its engine is known to hang.
func TestSweepStopsOnAHangingEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		l.instance.host.Store("0123456789abcdef")
		begun := time.Now()
		_, err := l.sweepAgents(t.Context(), fake(t, neverAnswers))
		if took := time.Since(begun); !errors.Is(err, errHangs) || took != pingInterval+pingTimeout {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// The first launch on an engine sweeps in the background.
func TestFirstLaunchSweeps(t *testing.T) {
	l := newLauncher(t, Config{})
	dead := otherProcess(t, l)
	left := launch(t, dead, sandbox.Spec{})
	killInstance(t, dead)
	launch(t, l, sandbox.Spec{})
	<-left.monitor.ended
	if _, err := left.Read(make([]byte, 1)); !errors.As(err, new(*sandbox.EndedError)) {
		t.Errorf("read: %v, want that the box has ended", err)
	}
	l.instance.sweeps.Wait()
}

func TestBoxesListsThisHostOnly(t *testing.T) {
	l := newLauncher(t, Config{})
	dead := otherProcess(t, l)
	mine, left := launch(t, l, sandbox.Spec{}), launch(t, dead, sandbox.Spec{})
	killInstance(t, dead)
	foreign := New(Config{StateDir: t.TempDir(), CacheDir: l.config.CacheDir})
	if list, err := foreign.Boxes(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("with another state directory: %v, %v", list, err)
	}
	foreign.Close()
	list, err := l.Boxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	alive := make(map[string]bool)
	for _, s := range list {
		alive[s.ID] = s.Alive
		if s.Persistent != nil || !s.Running || s.Image != DefaultImage || time.Since(s.Started) > time.Minute || len(s.Container) < 12 {
			t.Errorf("%+v", s)
		}
	}
	if diff := cmp.Diff(map[string]bool{mine.id: true, left.id: false}, alive); diff != "" {
		t.Error(diff)
	}
}

// A launcher without a directory for its locks works, without a sweep.
func TestLaunchWithoutLocks(t *testing.T) {
	l := newLauncher(t, Config{})
	if err := os.WriteFile(filepath.Join(l.config.StateDir, "boxes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := launch(t, l, sandbox.Spec{})
	greet(t, b)
	_, err := l.Launch(t.Context(), "persistent", sandbox.Spec{Persistent: &sandbox.Persistent{Name: "n", ReattachTimeout: time.Hour}})
	if err == nil || !strings.Contains(err.Error(), "boxes") {
		t.Errorf("a persistent box: %v", err)
	}
}

// A container that the engine lists and cannot find is no box; one that it could not
// remove is.
func TestBoxesOmitsContainersThatAreGone(t *testing.T) {
	l := New(Config{StateDir: t.TempDir()})
	l.instance.host.Store("0123456789abcdef")
	list, err := l.listBoxes(t.Context(), fake(t, func(r *http.Request) (*http.Response, error) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			known := container.Summary{ID: "known", Command: agentPath, State: container.StateDead}
			ghost := known
			ghost.ID = "ghost"
			return reply(http.StatusOK, []container.Summary{known, ghost})
		case strings.Contains(r.URL.Path, "/ghost/"):
			return fail(http.StatusNotFound, "no such container")
		}
		return reply(http.StatusOK, container.InspectResponse{})
	}))
	if err != nil || len(list) != 1 || list[0].Container != "known" {
		t.Errorf("%+v, %v", list, err)
	}
}
