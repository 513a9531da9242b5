package docker

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

// escapeChecks tries from inside what a box must refuse, and prints a line for each:
// ok, FAIL or skip.
const escapeChecks = "escape_checks.sh"

func TestNothingEscapes(t *testing.T) {
	eachTransport(t, func(t *testing.T, l *Launcher) {
		workspace := t.TempDir()
		makeWritable(workspace, 1000, 1000)
		copyTestdata(t, escapeChecks, workspace)
		b := launch(t, l, sandbox.Spec{Workspace: workspace})
		out, code := sh(t, b, greet(t, b), "bash /workspace/"+escapeChecks)
		checkEscapes(t, out, code)
	})
}

func checkEscapes(t *testing.T, out string, code int) {
	t.Helper()
	failed := verdicts(out, "FAIL")
	total := verdicts(out, "total")
	if code != 0 || len(failed) > 0 || len(total) != 1 {
		t.Errorf("exit %d, %v\n%s", code, total, strings.Join(failed, "\n"))
	}
	t.Logf("%v; skipped:\n%s", total, strings.Join(verdicts(out, "skip"), "\n"))
}

// TestNothingEscapesWithShims runs the checks in a box whose programs have shims.
func TestNothingEscapesWithShims(t *testing.T) {
	weekly.Only(t)
	eachTransport(t, func(t *testing.T, l *Launcher) {
		workspace := t.TempDir()
		makeWritable(workspace, 1000, 1000)
		copyTestdata(t, escapeChecks, workspace)
		m := boxtest.Manager(t, l, sandbox.Spec{Workspace: workspace, Shims: &sandbox.Shims{Names: boxtest.Shimmed}})
		box, _, err := m.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
		if err != nil {
			t.Fatal(err)
		}
		run, err := box.Exec(t.Context(), sandbox.Command{Cmd: "command -v cat mount; bash /workspace/" + escapeChecks})
		if err != nil {
			t.Fatal(err)
		}
		<-run.Done()
		text, err := os.ReadFile(run.LogPath())
		if err != nil || strings.Count(string(text), "/warmbox-shims-") < 2 {
			t.Errorf("%v, %.300q", err, text)
		}
		checkEscapes(t, string(text), run.Exit().Code)
	})
}

// The same checks must fail in a container of a plain docker run. Otherwise their success
// in a box would prove nothing.
func TestChecksFailInAPlainContainer(t *testing.T) {
	e := requireEngine(t)
	workspace := t.TempDir()
	copyTestdata(t, escapeChecks, workspace)
	out := plainContainer(t, e, workspace)
	failed := strings.Join(verdicts(out, "FAIL"), "\n")
	for _, check := range []string{"caps-CapBnd", "no-new-privs", "ro/etc", "root-mount-ro", "tmp-bounded", "uid-nonzero", "limit-pids", "limit-memory", "only-loopback", "sock-AF_VSOCK"} {
		if !strings.Contains(failed, "FAIL "+check) {
			t.Errorf("nothing is said about %s:\n%s", check, out)
		}
	}
	t.Logf("%v", verdicts(out, "total"))
}

// plainContainer runs the checks in a container with docker run's defaults, on a
// network that leads nowhere, and returns what they print.
func plainContainer(t *testing.T, e *engine, workspace string) string {
	t.Helper()
	c := e.Client
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	net, err := c.NetworkCreate(ctx, "warmbox-test-"+strings.ToLower(t.Name()), network.CreateOptions{Internal: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.NetworkRemove(context.Background(), net.ID) })
	made, err := c.ContainerCreate(ctx,
		&container.Config{Image: DefaultImage, User: "root", Entrypoint: []string{"bash", workspaceDir + "/" + escapeChecks}, Tty: true},
		&container.HostConfig{NetworkMode: container.NetworkMode(net.ID), Binds: []string{workspace + ":" + workspaceDir}}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
	})
	results, errs := c.ContainerWait(ctx, made.ID, container.WaitConditionNextExit)
	if err := c.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-results:
	case err := <-errs:
		t.Fatal(err)
	}
	return logs(t, c, made.ID)
}

func verdicts(text, first string) (found []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, first+" ") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func logs(t *testing.T, c *client.Client, id string) string {
	t.Helper()
	body, err := c.ContainerLogs(t.Context(), id, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	var out strings.Builder
	if _, err := io.Copy(&out, body); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
