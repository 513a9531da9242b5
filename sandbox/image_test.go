package sandbox_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

// asker is a Launcher that starts nothing and records which image was wanted.
type asker struct{ image string }

var errAsked = errors.New("asked")

func (a *asker) Launch(_ context.Context, _ string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	a.image = spec.Image
	return nil, errAsked
}

func TestImagesAreAllowedByList(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("ab", 32)
	var asked asker
	m := boxtest.Manager(t, &asked, sandbox.Spec{Image: "home:1"})
	m.Images = []string{"golang:*", "golang:1.26" + digest, "home:1" + digest, "node" + digest}
	for ref, want := range map[string]string{
		"":                      "home" + digest, // a pin holds for the default one too
		"home:1":                "home" + digest,
		"golang:1.25":           "golang:1.25",
		"golang:1.26":           "golang" + digest,
		"docker.io/golang:1.26": "golang" + digest,
		"node" + digest:         "node" + digest,
		"node:22":               "",
		"home:2":                "",
		"evil":                  "",
	} {
		_, _, err := m.Start(t.Context(), me, sandbox.Request{Image: ref})
		e, denied := errors.AsType[*sandbox.Error](err)
		switch {
		case want != "" && (!errors.Is(err, errAsked) || asked.image != want):
			t.Errorf("%q: launched as %q, want %q; %v", ref, asked.image, want, err)
		case want == "" && (!denied || e.Code != sandbox.ImageDenied || !strings.Contains(e.Text, "home:1, golang:*, ")):
			t.Errorf("%q: %v, want a denial that names the list", ref, err)
		}
	}
}
