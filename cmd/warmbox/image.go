package main

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/warmbox/warmbox"
	"github.com/warmbox/warmbox/sandbox/docker"
)

// ownImages begins the names of the images that this command builds.
const ownImages = "warmbox/sandbox:"

func imageBuildCommand() command {
	build := docker.BuildOptions{Dockerfile: []byte(warmbox.Dockerfile)}
	var packages string
	return command{
		name: "image build", loud: true,
		short: "builds the image that boxes run in",
		long: "Builds the image that boxes run in, from a Dockerfile that warmbox carries. The target slim has the usual\n" +
			"command line tools, git, Python, a C compiler and make; full has Go, Node and what it takes to work with data\n" +
			"and office documents besides.",
		flags: func(fs *flag.FlagSet) {
			fs.StringVar(&build.Target, "target", "slim", "which image to build: `slim|full` (default slim)")
			fs.StringVar(&build.Base, "base", "", "the Debian 12 `IMAGE` to build it on (default debian:bookworm-slim)")
			fs.StringVar(&packages, "packages", "", "a `LIST` of more Debian packages to install in it, such as \"ffmpeg golang\"")
			fs.StringVar(&build.Tag, "tag", "", "its `NAME` (default warmbox/sandbox:TARGET)")
		},
		run: func(ctx context.Context, c *call) error {
			build.Packages = list(strings.ReplaceAll(packages, " ", ","))
			return buildImage(ctx, c, build)
		},
	}
}

func buildImage(ctx context.Context, c *call, build docker.BuildOptions) error {
	if err := oneOf(build.Target, "slim", "full"); err != nil {
		return &usageError{"--target: " + err.Error(), c.name}
	}
	if build.Tag == "" {
		build.Tag = ownImages + build.Target
	}
	launcher, err := newDocker(c.config, c.log)
	if err != nil {
		return err
	}
	progress := func(line string) { fmt.Fprintln(c.stderr, line) }
	if err := launcher.BuildImage(ctx, build, progress); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.stdout, "built "+build.Tag)
	return err
}
