package tools

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

// A coverer is a Launcher whose boxes protect .envrc.
type coverer struct{ sandbox.Launcher }

func (c coverer) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	stream, err := c.Launcher.Launch(ctx, id, spec)
	return covering{stream}, err
}

type covering struct{ io.ReadWriteCloser }

func (c covering) Place() sandbox.Place {
	place := c.ReadWriteCloser.(sandbox.Placed).Place()
	place.Covered = []string{".envrc"}
	return place
}

// TestCoverHintWhateverTheExitCode: a chain of commands gets the hint although its last command
// succeeded.
func TestCoverHintWhateverTheExitCode(t *testing.T) {
	m := boxtest.Manager(t, coverer{boxtest.Agent(t)}, sandbox.Spec{})
	for cmd, want := range map[string]bool{
		"echo 'bash: line 1: .envrc: Read-only file system' >&2; true": true,
		"echo 'bash: line 1: .envrc: Read-only file system'; exit 1":   true,
		"echo .envrc": false,
		"echo 'sed: cannot rename ./sedXyZ: Device or resource busy' >&2; : sed -i s/a/b/ .envrc; exit 4": true,
		"echo 'sed: cannot rename ./sedXyZ: Device or resource busy' >&2; : sed -i s/a/b/ other; exit 4":  false,
		"echo \\\"OSError: [Errno 18] Invalid cross-device link: 'a' -> '.envrc'\\\" >&2; exit 1":         true,
		"echo \\\"mv: cannot move 'a' to '.envrc': Device or resource busy\\\" >&2; exit 1":               true,
	} {
		c := connect(t, &Set{Manager: m}) // a session of its own
		a := callTool(t, c, "exec", `{"cmd":"`+cmd+`"}`)
		if hint, _ := a.fields["hint"].(string); strings.Contains(hint, "protect") != want {
			t.Errorf("%s: hint %q", cmd, hint)
		}
	}
}
