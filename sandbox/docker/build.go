package docker

import (
	"archive/tar"
	"context"
	"fmt"
	"strings"

	"github.com/docker/docker/api/types/build"

	"github.com/warmbox/warmbox/sandbox"
)

// BuildOptions say what image to build.
type BuildOptions struct {
	Dockerfile []byte
	Target     string   // a stage of it; "" is the last
	Base       string   // its argument BASE; "" leaves its default
	Packages   []string // its argument PACKAGES
	Tag        string   // "" is the launcher's default image
}

// BuildImage builds an image from a Dockerfile that needs no other file.
// progress is told what the engine says, one line each time; nil means that
// nobody listens.
func (l *Launcher) BuildImage(ctx context.Context, o BuildOptions, progress func(string)) error {
	e, err := l.connect(ctx)
	if err != nil {
		return err
	}
	if o.Tag == "" {
		o.Tag = l.config.DefaultImage
	}
	if progress == nil {
		progress = func(string) {}
	}
	said := new(sandbox.LastLines)
	err = e.build(ctx, o, func(line string) {
		fmt.Fprintln(said, line)
		progress(line)
	})
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case !e.answers(err):
		return l.lost(ctx, e, err)
	}
	return &sandbox.Error{Code: sandbox.Internal, Err: err,
		Text: fmt.Sprintf("build image %s: %s\nIts last lines:\n%s", o.Tag, clean(err.Error(), 500), said),
		Hint: "Where no image registry can be reached, name a base image that is there."}
}

// build has the engine's own builder do it, which all engines have.
func (e *engine) build(ctx context.Context, o BuildOptions, tell func(string)) error {
	files := archive(o.Dockerfile, &tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(o.Dockerfile))})
	args := make(map[string]*string)
	if o.Base != "" {
		args["BASE"] = &o.Base
	}
	if packages := strings.Join(o.Packages, " "); packages != "" {
		args["PACKAGES"] = &packages
	}
	resp, err := e.ImageBuild(ctx, files, build.ImageBuildOptions{
		Tags: []string{o.Tag}, Target: o.Target, BuildArgs: args,
		Dockerfile: "Dockerfile", Remove: true, ForceRemove: true, Version: build.BuilderV1,
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var l lines
	err = follow(resp.Body, func(m message) {
		if m.Stream != "" {
			l.add(m.Stream, tell)
		} else if m.Status != "" && m.ProgressDetail.Total == 0 {
			tell(clean(strings.TrimSpace(m.ID+" "+m.Status), maxLine))
		}
	})
	l.add("\n", tell)
	return err
}

// Lines are put together from the pieces in which an engine sends them.
type lines struct{ rest string }

// maxLine bounds a line that is passed on.
const maxLine = 2000

func (l *lines) add(piece string, tell func(string)) {
	l.rest += piece
	for {
		line, rest, ok := strings.Cut(l.rest, "\n")
		if !ok && len(l.rest) < maxLine {
			return
		}
		l.rest = rest
		if line = clean(line, maxLine); line != "" {
			tell(line)
		}
	}
}
