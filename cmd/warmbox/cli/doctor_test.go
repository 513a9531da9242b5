package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/docker"
)

// What no machine at hand has wrong with it.
func TestDoctorsVerdicts(t *testing.T) {
	for name, tt := range map[string]struct {
		look func(*doctor)
		want []string
		fail bool
	}{
		"old runc": {
			look: func(d *doctor) {
				d.checkRunc(docker.Engine{EngineServer: docker.EngineServer{Runc: "1.1.5", RuncWarning: "lets boxes out"}})
			},
			want: []string{"warn  runc       1.1.5: lets boxes out\n"},
		},
		"no word of runc": {
			look: func(d *doctor) { d.checkRunc(docker.Engine{}) },
		},
		"users as on this machine": {
			look: func(d *doctor) { d.checkUsers(docker.Engine{}) },
			want: []string{"ok    users      the user of a box is the same user of this machine; the kernel counts inotify", `"userns-remap": "default"`, "files that boxes write belong to that user", "and with root"},
		},
		"users as on this machine, with Podman": {
			look: func(d *doctor) { d.checkUsers(docker.Engine{Podman: true}) },
			want: []string{"ok    users      the user of a box is the same user of this machine; the kernel counts inotify", `→ userns = "auto" gives each box its own ids`},
		},
		"ids of each box's own, with Podman": {
			look: func(d *doctor) {
				d.Config.UserNS = "auto"
				d.checkUsers(docker.Engine{Podman: true})
			},
		},
		"an engine without root": {
			look: func(d *doctor) { d.checkUsers(docker.Engine{EngineUsers: docker.EngineUsers{Rootless: true}}) },
			want: []string{"ok    users      the engine is rootless: commands are user 0 of its user name space"},
		},
		"users of the engine's": {
			look: func(d *doctor) {
				d.checkUsers(docker.Engine{EngineUsers: docker.EngineUsers{UserNS: true, FirstUID: 100000}})
			},
			want: []string{"ok    users      the engine maps user ids: user 1000 of a box is user 101000 of this machine"},
		},
		"users of the engine's, it does not say which": {
			look: func(d *doctor) { d.checkUsers(docker.Engine{EngineUsers: docker.EngineUsers{UserNS: true}}) },
			want: []string{"ok    users      the engine maps user ids: the user of a box is a different user"},
		},
		"limits that do not hold": {
			look: func(d *doctor) {
				d.checkLimits(docker.Engine{EngineLimits: docker.EngineLimits{Cgroup: "2", CgroupDriver: "systemd", Unlimited: []string{"CPUs", "memory"}}})
			},
			want: []string{"warn  limits     cgroup v2 (systemd) does not enforce limits of CPUs, memory", "→ configure the kernel"},
		},
		"no image of ours": {
			look: func(d *doctor) { d.checkImage(docker.Engine{Image: "warmbox/sandbox:full"}) },
			want: []string{"fail  image      the image warmbox/sandbox:full does not exist yet\n", "→ warmbox image build --target full\n"},
			fail: true,
		},
		"no image of theirs": {
			look: func(d *doctor) { d.checkImage(docker.Engine{Image: "golang:1.26"}) },
			want: []string{"warn  image      golang:1.26 is not on the engine; the first box pulls it", "→ docker pull golang:1.26\n"},
		},
		"no agent": {
			look: func(d *doctor) { d.checkAgent(t.Context(), "mips") },
			want: []string{"fail  agent      there is no agent for linux/mips"},
			fail: true,
		},
		"a hint": {
			look: func(d *doctor) { d.fail("box", sandbox.Errorf(sandbox.Internal, "Do this.", "it broke")) },
			want: []string{"fail  box        it broke\n                 → Do this.\n"},
			fail: true,
		},
		"no hint": {
			look: func(d *doctor) { d.fail("box", errors.New("it broke")) },
			want: []string{"fail  box        it broke\n"},
			fail: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			d := &doctor{Call: &Call{Config: &Config{}}, out: &out}
			tt.look(d)
			for _, part := range tt.want {
				if !strings.Contains(out.String(), part) {
					t.Errorf("lacks %q:\n%s", part, out.String())
				}
			}
			if d.failed != tt.fail || len(tt.want) == 0 && out.Len() > 0 {
				t.Errorf("failed %v, want %v:\n%s", d.failed, tt.fail, out.String())
			}
		})
	}
}
