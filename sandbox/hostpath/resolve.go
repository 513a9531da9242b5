package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxLinks bounds the links that a path may lead over, as in the kernel.
const maxLinks = 40

// resolve follows the links of a path, but none in one of the directories: what can write
// there may have made it.
func resolve(path string, wrote []string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if runtime.GOOS == "windows" {
		return resolveWhole(abs, wrote)
	}
	var real []string // the directories whose links must not be followed
	for _, dir := range wrote {
		real = append(real, Real(dir))
	}
	done, rest := "/", strings.Trim(abs, "/")
	for links := 0; rest != ""; {
		part, more, _ := strings.Cut(rest, "/")
		rest = more
		switch part {
		case "", ".":
			continue
		case "..":
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, part)
		info, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		for _, dir := range real {
			if below(dir, done) {
				return "", madeByBox(abs, next, dir)
			}
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "resolve", Path: abs, Err: errors.New("too many links")}
		}
		to, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(to) {
			done = "/"
		}
		rest = strings.Trim(to, "/") + "/" + rest
	}
	return done, nil
}

// resolveWhole follows the links of a path on Windows, where only the system can follow
// every kind of link. It refuses a path that lies in one of the directories and leads out
// of it.
func resolveWhole(abs string, wrote []string) (string, error) {
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", err
	}
	for _, dir := range wrote {
		if below(filepath.Clean(dir), abs) && !Within(dir, real) {
			return "", madeByBox(abs, abs, dir)
		}
	}
	return real, nil
}

func madeByBox(path, link, dir string) error {
	return refuse(path, "Check where the link leads, and use the path of its target instead.",
		"is not followed: %s is a symbolic link, and your boxes could write %s, so a command may have created the link", link, dir)
}
