package docker

import (
	"archive/tar"
	"context"
	"fmt"
	"strings"

	"github.com/docker/docker/api/types/build"

	"github.com/warmbox/warmbox/sandbox"
)

// BuildOptions describe the image to build.
type BuildOptions struct {
	Dockerfile []byte
	Target     string   // a stage of it; "" is the last
	Base       string   // its argument BASE; "" leaves its default
	Packages   []string // its argument PACKAGES
	PipIndex   string   // its argument PIP_INDEX_URL; "" leaves its default
	Tag        string   // "" is the launcher's default image
}

// BuildImage builds an image from a Dockerfile that needs no other file. It calls
// progress with each line of the engine's report; nil ignores them.
func (l *Launcher) BuildImage(ctx context.Context, o BuildOptions, progress func(string)) error {
	e, err := l.connector.connect(ctx)
	if err != nil {
		return err
	}
	if o.Tag == "" {
		o.Tag = l.config.DefaultImage
	}
	if progress == nil {
		progress = func(string) {}
	}
	tail := new(sandbox.LastLines)
	err = e.build(ctx, o, func(line string) {
		fmt.Fprintln(tail, line)
		progress(line)
	})
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case !e.answered(err):
		return l.connector.lost(ctx, e, err)
	}
	hint := "If no image registry can be reached, name a base image that the engine has."
	if strings.Contains(err.Error(), "returned a non-zero code") { // a step failed, so the base was there
		hint = ""
	}
	return &sandbox.Error{Code: sandbox.Internal, Err: err, Hint: hint,
		Text: fmt.Sprintf("build image %s: %s\nIts last lines:\n%s", o.Tag, sanitize(err.Error(), 500), tail)}
}

// build builds with the classic builder, which all engines have.
func (e *engine) build(ctx context.Context, o BuildOptions, report func(string)) error {
	files := archive(o.Dockerfile, &tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(o.Dockerfile))})
	args := make(map[string]*string)
	for name, value := range map[string]string{"BASE": o.Base, "PACKAGES": strings.Join(o.Packages, " "), "PIP_INDEX_URL": o.PipIndex} {
		if value != "" {
			args[name] = &value
		}
	}
	resp, err := e.ImageBuild(ctx, files, build.ImageBuildOptions{
		Tags: []string{o.Tag}, Target: o.Target, BuildArgs: args,
		Dockerfile: "Dockerfile", Remove: true, ForceRemove: true, Version: build.BuilderV1,
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var l lineBuffer
	err = readMessages(resp.Body, func(m message) {
		if m.Stream != "" {
			l.add(uncolored(m.Stream), report)
		} else if m.Status != "" && m.ProgressDetail.Total == 0 {
			report(sanitize(strings.TrimSpace(m.ID+" "+m.Status), maxLine))
		}
	})
	l.add("\n", report)
	return err
}

// uncolored returns a piece without the red in which the classic builder wraps what a step
// prints to stderr.
func uncolored(piece string) string {
	if inner, ok := strings.CutPrefix(piece, "\x1b[91m"); ok {
		return strings.TrimSuffix(inner, "\x1b[0m")
	}
	return piece
}

// A lineBuffer joins the pieces in which an engine sends lines.
type lineBuffer struct{ rest string }

// maxLine bounds a line of progress.
const maxLine = 2000

func (l *lineBuffer) add(piece string, report func(string)) {
	l.rest += piece
	for {
		line, rest, ok := strings.Cut(l.rest, "\n")
		if !ok && len(l.rest) < maxLine {
			return
		}
		l.rest = rest
		if line = sanitize(line, maxLine); line != "" {
			report(line)
		}
	}
}
