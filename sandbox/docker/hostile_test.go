package docker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/warmbox/warmbox/sandbox"
)

// malicious is an image that tries all that an image can: to choose what runs first
// and as whom, to load code into the agent, to look like a box of ours, and to
// replace the shell of commands.
const malicious = `FROM ` + DefaultImage + `
USER root
RUN printf '#include <fcntl.h>\n#include <unistd.h>\n__attribute__((constructor)) static void f(void) { if (getpid() == 1) close(open("/workspace/preloaded", O_CREAT, 0600)); }\n' >/evil.c \
 && gcc -shared -fPIC -o /evil.so /evil.c && echo /evil.so >/etc/ld.so.preload \
 && printf '#!/bin/sh\ntouch /workspace/ran "/workspace/ran-as-$(id -u)"\nsleep 1000\n' >/evil && chmod 4755 /evil \
 && cp /bin/cat /usr/bin/rootcat && chmod 4755 /usr/bin/rootcat && echo secret >/only-root && chmod 400 /only-root \
 && mkdir -p /opt/warmbox /run/warmbox && cp /evil /opt/warmbox/agent && cp /evil /run/warmbox/agent.sock \
 && printf '1000:x:0:0::/evil:/evil\n' >>/etc/passwd && printf '1000:x:0:\n0:x:1000:agent,1000\n' >>/etc/group \
 && ln -s /proc/self/fd /evil-dir \
 && mv /usr/bin/bash /usr/bin/bash.real \
 && printf '#!/usr/bin/bash.real\n{ echo "uid $(id -u) groups $(id -G)"; cat /proc/1/environ /proc/1/mem; ls /proc/1/fd; echo forged >/proc/1/fd/1; kill -9 1; rm -rf /opt/warmbox /run/warmbox; rootcat /only-root; } >>"/tmp/tampered" 2>&1\nexec /usr/bin/bash.real "$@"\n' >/usr/bin/bash && chmod 755 /usr/bin/bash
ENV LD_PRELOAD=/evil.so BASH_ENV=/evil ENV=/evil PROMPT_COMMAND=/evil SHELLOPTS=xtrace GODEBUG=gctrace=1 WARMBOX_RUN=evil
ENV PATH=.::/workspace/bin:/proc/self/cwd:/tmp:/home/agent/bin:/usr/local/bin:/usr/bin:/bin HOME=/evil TMPDIR=/evil
ENTRYPOINT ["/evil"]
CMD ["evil"]
SHELL ["/evil", "-c"]
HEALTHCHECK --interval=1s CMD ["/evil"]
STOPSIGNAL SIGUSR1
EXPOSE 22
ONBUILD RUN /evil
LABEL dev.warmbox.box=evil dev.warmbox.instance=evil dev.warmbox.server-pid=1 dev.warmbox.agent=evil dev.warmbox.keep=forever
USER root
WORKDIR /evil-dir
`

// outcomes are what commands see in a box of that image.
var outcomes = []struct{ name, cmd, want string }{
	{"user", `id -u; id -G; pwd`, "1000\n1000\n/workspace\n"},
	{"environment", `env | grep -E 'PRELOAD|BASH_ENV|^ENV|PROMPT|SHELLOPTS|GODEBUG|evil'`, ""},
	{"PATH", `echo "$PATH"`, "/usr/local/bin:/usr/bin:/bin:/home/agent/bin\n"},
	{"agent", `stat -c '%a %U' /opt/warmbox/agent; ps -o args= -p 1 | cut -d' ' -f1,2`, "111 root\n/opt/warmbox/agent serve\n"},
	{"nothing ran", `ls /workspace; pgrep -c sleep`, "0\n"},
	{"a shell of its own gained nothing", `sed 's/ serve.*//' /tmp/tampered | grep -E 'uid|forged|secret' | sort -u`, "uid 1000 groups 1000\n"},
	{"and was refused", `for p in environ mem fd fd/1; do grep -q "/proc/1/$p: Permission denied\|/proc/1/$p': Permission denied" /tmp/tampered && echo $p; done`, "environ\nmem\nfd\nfd/1\n"},
	{"descriptors", `cd /proc/self/fd && echo *`, "0 1 2 3\n"},
}

func TestMaliciousImage(t *testing.T) {
	const tag = "warmbox-test/malicious:latest"
	buildImage(t, newLauncher(t, Config{}), tag, malicious)
	eachTransport(t, func(t *testing.T, l *Launcher) {
		workspace := t.TempDir()
		makeWritable(workspace, 1000, 1000)
		b := launch(t, l, sandbox.Spec{Image: tag, Workspace: workspace})
		r := greet(t, b)
		for _, o := range outcomes {
			t.Run(o.name, func(t *testing.T) {
				if out, _ := sh(t, b, r, o.cmd); out != o.want {
					t.Errorf("got %q, want %q", out, o.want)
				}
			})
		}
		c, err := b.engine.ContainerInspect(t.Context(), b.container)
		if err != nil {
			t.Fatal(err)
		}
		if c.State.Health != nil || c.Config.StopSignal != "SIGKILL" || c.Config.WorkingDir != "/" || c.Config.User != "1000:1000" {
			t.Errorf("the image has its way: %+v", c.Config)
		}
		if !met(&c, cis) || !met(&c, restricted) {
			t.Error("the box does not meet the benchmarks")
		}
		sameLabels(t, l, b, c.Config.Labels)
		if left, _ := filepath.Glob(filepath.Join(workspace, "*")); len(left) > 0 {
			t.Errorf("written to the workspace: %v", left)
		}
	})
}

func met(c *container.InspectResponse, list []control) bool {
	for _, row := range list {
		if !row.met(c) {
			return false
		}
	}
	return true
}

// sameLabels checks that the labels of a box are those that the launcher set.
func sameLabels(t *testing.T, l *Launcher, b *box, got map[string]string) {
	t.Helper()
	for name, want := range map[string]string{"box": b.id, "instance": l.instance.id, "agent": "", "keep": ""} {
		if got[labelPrefix+name] != want {
			t.Errorf("label %s is %q, want %q", name, got[labelPrefix+name], want)
		}
	}
	for _, evil := range []string{"instance=evil", "box=evil", "agent=evil", "keep=forever", "server-pid=1"} {
		found, err := b.engine.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelPrefix+evil))})
		if err != nil || len(found) > 0 {
			t.Errorf("%d containers bear %s, %v", len(found), evil, err)
		}
	}
}

// A symbolic link at a mount point would move the mount.
func TestImagesWithLinksAtOurPlacesAreRefused(t *testing.T) {
	l := newLauncher(t, Config{})
	for place, make := range map[string]string{
		"/opt":         "rm -rf /opt && mkdir /tmp/o && ln -s /tmp/o /opt",
		"/opt/warmbox": "ln -s /tmp/a/b /opt/warmbox",
		"/run/warmbox": "ln -s /home/agent/x /run/warmbox",
		"/home":        "mv /home /evil && ln -s /evil /home",
		"/home/agent":  "rm -rf /home/agent && ln -s /proc/1/root /home/agent",
		"/workspace":   "ln -s /proc/self/cwd /workspace",
		"/tmp":         "rm -rf /tmp && touch /tmp",
	} {
		t.Run(strings.ReplaceAll(place[1:], "/", " "), func(t *testing.T) {
			tag := "warmbox-test/linked:" + strings.ReplaceAll(place[1:], "/", "-")
			buildImage(t, l, tag, "FROM "+DefaultImage+"\nUSER root\nRUN "+make+"\n")
			_, err := l.Launch(t.Context(), "linked", sandbox.Spec{Image: tag})
			if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.ImageDenied || !strings.Contains(e.Text, " at "+place+",") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSearchPath(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/bin:/bin": "/usr/bin:/bin",
		"":              "",
		":.:bin:/workspace:/workspace/../tmp/x:/go": "/go",
		"/home/agent/.local/bin:/usr/bin":           "/usr/bin:/home/agent/.local/bin",
		"/homely:/tmpfs/bin/:/dev/shm:/proc/1/root": "/homely:/tmpfs/bin",
	} {
		if got := searchPath(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

// Facts that another version stored are learned again.
func TestFactsOfAnOldFormAreLearnedAgain(t *testing.T) {
	l := newLauncher(t, Config{})
	launch(t, l, sandbox.Spec{}).Close()
	files, err := filepath.Glob(filepath.Join(l.config.CacheDir, "images", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	var f facts
	if err := readJSON(files[0], &f); err != nil || f.Form != factsForm {
		t.Fatalf("%+v, %v", f, err)
	}
	f.Form, f.Bad = 0, "/old"
	next := New(l.config)
	next.instance.id = l.instance.id
	next.dirs.store("images", strings.TrimSuffix(filepath.Base(files[0]), ".json"), f)
	launch(t, next, sandbox.Spec{})
	if err := os.Remove(files[0]); err != nil {
		t.Error(err)
	}
}
