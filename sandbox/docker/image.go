package docker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"

	"github.com/warmbox/warmbox/sandbox"
)

// image returns an image of the engine, and pulls it if it is missing.
func (l *Launcher) image(ctx context.Context, e *engine, name string, progress func(string)) (image.InspectResponse, error) {
	none := image.InspectResponse{}
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return none, sandbox.Errorf(sandbox.InvalidArgument, `A name looks like "golang:1.26" or "ghcr.io/acme/tool@sha256:…".`,
			"the image name %q is invalid: %w", sanitize(name, 200), err)
	}
	ref := reference.FamiliarString(reference.TagNameOnly(named))
	found, err := e.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		if err := l.pull(ctx, e, ref, progress); err != nil {
			return none, err
		}
		found, err = e.ImageInspect(ctx, ref)
	}
	if err != nil {
		return none, fmt.Errorf("inspect image %s: %w", ref, err)
	}
	if err := usable(ref, found); err != nil {
		return none, err
	}
	return found, nil
}

// usable refuses images that boxes cannot be created from.
func usable(ref string, found image.InspectResponse) error {
	if found.Os != "linux" {
		return sandbox.Errorf(sandbox.InvalidArgument, "Use an image for Linux.", "image %s is for %q, and boxes run Linux", ref, sanitize(found.Os, 50))
	}
	if found.Config != nil && len(found.Config.Volumes) > 0 {
		// Those volumes would cover our mounts, and be writable disk without a limit of
		// ours.
		return sandbox.Errorf(sandbox.ImageDenied, "Build an image without volumes that copies what you need from this one, or use another image.",
			"image %s declares volumes, which boxes do not allow", ref)
	}
	return nil
}

// ownTarget returns the target of Dockerfile.sandbox that makes an image, "" for images that we do
// not make.
func ownTarget(ref string) string {
	name, target, _ := strings.Cut(ref, ":")
	own, _, _ := strings.Cut(DefaultImage, ":")
	if name == own && (target == "slim" || target == "full") {
		return target
	}
	return ""
}

// pull has the engine pull an image from its registry.
func (l *Launcher) pull(ctx context.Context, e *engine, ref string, progress func(string)) error {
	missing := func(reason string, err error) error {
		hint := "Check the name, or have the owner pull it: docker pull " + ref
		if target := ownTarget(ref); target != "" {
			hint = "Have the owner build it once: warmbox image build --target " + target
		} else if ref == l.config.DefaultImage {
			hint += ", or set another default (--image)."
		}
		return &sandbox.Error{Code: sandbox.ImageNotFound, Text: fmt.Sprintf("Image %s is not on this engine and could not be pulled: %s.", ref, reason), Hint: hint, Err: err}
	}
	if ownTarget(ref) != "" {
		return missing("it is built on this machine, not pulled", nil)
	}
	body, err := e.ImagePull(ctx, ref, image.PullOptions{})
	if err == nil {
		defer body.Close()
		err = readMessages(body, pullProgress("pulling "+ref, progress))
	}
	if err == nil || ctx.Err() != nil || !e.answered(err) {
		return err
	}
	return missing(strings.TrimSuffix(sanitize(err.Error(), 300), "."), err)
}

// A message is one line of an engine's report while it pulls or builds.
type message struct {
	ID             string `json:"id"`
	Status         string `json:"status"`
	Stream         string `json:"stream"`
	Error          string `json:"error"`
	ProgressDetail struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
}

// maxMessage bounds one line of a report.
const maxMessage = 1 << 20

// readMessages reads a report to its end. An error in it is the result.
func readMessages(r io.Reader, report func(message)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxMessage)
	for lines.Scan() {
		var m message
		if len(lines.Bytes()) == 0 || json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		if m.Error != "" {
			return errors.New(m.Error)
		}
		report(m)
	}
	return lines.Err()
}

const (
	progressPause = 500 * time.Millisecond // between two lines of progress
	maxLayers     = 512
)

// pullProgress returns a function that turns an engine's many messages about layers
// into a few lines of progress.
func pullProgress(what string, progress func(string)) func(message) {
	if progress == nil {
		return func(message) {}
	}
	progress(what)
	type layer struct{ current, total int64 }
	layers := make(map[string]layer)
	last := time.Now()
	return func(m message) {
		if _, known := layers[m.ID]; m.Status != "Downloading" || !known && len(layers) >= maxLayers {
			return
		}
		layers[m.ID] = layer{m.ProgressDetail.Current, m.ProgressDetail.Total}
		if time.Since(last) < progressPause {
			return
		}
		last = time.Now()
		var sum layer
		for _, l := range layers {
			sum.current += l.current
			sum.total += l.total
		}
		if sum.total > 0 {
			progress(fmt.Sprintf("%s: %d %% of %d MB", what, 100*sum.current/sum.total, sum.total/1_000_000))
		}
	}
}
