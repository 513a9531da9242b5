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

// ownImages is the prefix of the images that image build makes.
const ownImages = "warmbox/sandbox:"

func imageBuildCommand() Command {
	build := docker.BuildOptions{Dockerfile: []byte(warmbox.Dockerfile)}
	var packages string
	return Command{
		Name: "image build", Loud: true,
		Short: "builds the image that boxes run in",
		Long: "Builds the image that boxes run in, from a Dockerfile that is part of warmbox. The target slim has the usual\n" +
			"command line tools, git, Python, a C compiler and make. full adds Go, Node, and tools for data and office\n" +
			"documents. One of them, python-pptx, comes from the Python package index, everything else from Debian.",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&build.Target, "target", "slim", "target to build: `slim|full` (default slim)")
			fs.StringVar(&build.Base, "base", "", "Debian 12 `IMAGE` to build it on (default debian:bookworm-slim)")
			fs.StringVar(&packages, "packages", "", "`LIST` of additional Debian packages, such as \"ffmpeg golang\"")
			fs.StringVar(&build.PipIndex, "pip-index", "", "`URL` of the Python package index for full (default https://pypi.org/simple); none leaves out python-pptx")
			fs.StringVar(&build.Tag, "tag", "", "`NAME` of the image (default warmbox/sandbox:TARGET)")
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
	switch {
	case build.PipIndex == "":
	case build.Target != "full":
		return Usagef("--pip-index is for --target full: %s needs no Python package index", build.Target)
	case build.PipIndex != "none" && !strings.Contains(build.PipIndex, "://"):
		return Usagef("--pip-index: %q is neither a URL nor none", build.PipIndex)
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
