package cli

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/warmbox/warmbox"
	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/docker"
)

// ownImages begins the names of the images that this command builds.
const ownImages = "warmbox/sandbox:"

func imageBuildCommand() Command {
	build := docker.BuildOptions{Dockerfile: []byte(warmbox.Dockerfile)}
	var packages string
	return Command{
		Name: "image build", Loud: true,
		Short: "builds the image that boxes run in",
		Long: "Builds the image that boxes run in, from a Dockerfile that warmbox carries. The target slim has the usual\n" +
			"command line tools, git, Python, a C compiler and make; full has Go, Node and what it takes to work with data\n" +
			"and office documents besides.",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&build.Target, "target", "slim", "which image to build: `slim|full` (default slim)")
			fs.StringVar(&build.Base, "base", "", "the Debian 12 `IMAGE` to build it on (default debian:bookworm-slim)")
			fs.StringVar(&packages, "packages", "", "a `LIST` of more Debian packages to install in it, such as \"ffmpeg golang\"")
			fs.StringVar(&build.Tag, "tag", "", "its `NAME` (default warmbox/sandbox:TARGET)")
		},
		Run: func(ctx context.Context, c *Call) error {
			build.Packages = list(strings.ReplaceAll(packages, " ", ","))
			return buildImage(ctx, c, build)
		},
	}
}

// MissingImage returns an error if the engine lacks its image and cannot pull it: one
// that only image build makes.
func MissingImage(e docker.Engine) error {
	target, ours := strings.CutPrefix(e.Image, ownImages)
	if e.HasImage || !ours {
		return nil
	}
	return sandbox.Errorf(sandbox.ImageNotFound, "warmbox image build --target "+target, "the image %s does not exist yet", e.Image)
}

func buildImage(ctx context.Context, c *Call, build docker.BuildOptions) error {
	if err := oneOf(build.Target, "slim", "full"); err != nil {
		return Usagef("--target: %v", err)
	}
	if build.Tag == "" {
		build.Tag = ownImages + build.Target
	}
	launcher, err := NewDocker(c.Config, c.Log)
	if err != nil {
		return err
	}
	progress := func(line string) { fmt.Fprintln(c.Stderr, line) }
	if err := launcher.BuildImage(ctx, build, progress); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.Stdout, "built "+build.Tag)
	return err
}
