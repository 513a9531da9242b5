package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ownFiles are the settings that name a file of the owner's alone, each as the
// arguments of a program that refuses or takes it at once.
func ownFiles(t *testing.T, h home) map[string]func(file string) []string {
	return map[string]func(string) []string{
		"log.file":   func(file string) []string { return []string{"doctor", "--log-file", file} },
		"audit.file": func(file string) []string { return []string{"exec", "--audit-file", file, "--", "true"} },
		"token":      func(file string) []string { return []string{"http", "--token-file", file} },
		"give":       func(file string) []string { return []string{"exec", "--config", h.given(t, file), "--", "true"} },
		"key":        func(file string) []string { return []string{"exec", "--summary-api-key-file", file, "--", "true"} },
	}
}

// given writes a configuration that gives commands what is in a file.
func (h home) given(t *testing.T, file string) string {
	t.Helper()
	name := filepath.Join(h.dir, "config.toml")
	err := os.WriteFile(name, []byte("[secrets.give]\nTOKEN = \"file:"+file+"\"\n"), 0o600)
	if err := errors.Join(err, h.own(name)); err != nil {
		t.Fatal(err)
	}
	return name
}

// file writes a file of the user's.
func (h home) file(t *testing.T, name string, mode os.FileMode) string {
	t.Helper()
	name = filepath.Join(h.dir, name)
	err := os.WriteFile(name, []byte("0123456789-0123456789\n"), mode)
	if err := errors.Join(err, os.Chmod(name, mode), h.own(name)); err != nil {
		t.Fatal(err)
	}
	return name
}

func link(t *testing.T, to, name string) string {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// One rule holds for every file that is its owner's alone: each is refused, in a
// sentence that names it, where a box or another user can have a hand in it.
func TestOwnFiles(t *testing.T) {
	needAgent(t)
	if os.Getuid() != 0 {
		t.Skip("only root can make files of others")
	}
	h := newHome(t)
	work, open := h.mkdir(t, "work"), h.mkdir(t, "open")
	good := h.file(t, "good", 0o600)
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	alien := filepath.Join(h.dir, "alien")
	if err := errors.Join(os.WriteFile(alien, []byte("0123456789-0123456789\n"), 0o600), os.Chmod(alien, 0o600), os.Chown(alien, otherUser, otherUser)); err != nil {
		t.Fatal(err)
	}
	link(t, good, filepath.Join(h.dir, "link"))
	link(t, h.dir, filepath.Join(open, "way"))
	link(t, work, filepath.Join(h.dir, "inside"))
	h.file(t, "work/file", 0o600)
	bad := map[string]string{
		h.file(t, "readable", 0o640):          "other users can open ",
		h.file(t, "writable", 0o602):          "other users can open",
		filepath.Join(h.dir, "link"):          "is a symbolic link, which is not followed",
		filepath.Join(open, "way", "good"):    "contains the symbolic link " + filepath.Join(open, "way"),
		filepath.Join(work, "file"):           "lies in the workspace " + work,
		filepath.Join(h.dir, "inside/file"):   "lies in the workspace " + work,
		filepath.Join(work, "..", "work/new"): "lies in the workspace " + work,
		h.dir:                                 "is a",
		alien:                                 "permission denied",
	}
	hard := h.file(t, "hard", 0o600)
	pipe := filepath.Join(h.dir, "pipe")
	if err := errors.Join(os.Link(hard, filepath.Join(h.dir, "hard2")), syscall.Mkfifo(pipe, 0o600), h.own(pipe)); err != nil {
		t.Fatal(err)
	}
	bad[hard] = "has a second hard link"
	bad[pipe] = "is a pipe or a socket, which stores nothing; name a file"
	bad[h.file(t, "open/file", 0o600)] = "lies in " + open + ", where other users can replace it (mode 0777); try: chmod"
	bad[filepath.Join(h.dir, "none", "file")] = "the directory " + filepath.Join(h.dir, "none") + " does not exist; correct the path, or try: mkdir -p"
	for setting, args := range ownFiles(t, h) {
		for file, want := range bad {
			args := append(args(file)[:1:1], append([]string{"--backend", "process", "--exec-whitelist", "*", "--workspace", work}, args(file)[1:]...)...)
			out, err := h.warmbox(t, args...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), want) && !(file == h.dir && strings.Contains(string(out), "is a directory; name a file in it")) || !strings.Contains(string(out), filepath.Clean(file)) {
				t.Errorf("%s %s: %v, want %q: %s", setting, file, err, want, out)
			}
		}
	}
	if err := errors.Join(os.Chmod(alien, 0o644), os.Chmod(h.file(t, "config2.toml", 0o666), 0o666)); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		alien: "belongs to user 65534, and warmbox runs as user", filepath.Join(h.dir, "config2.toml"): "(mode 0666), and it decides what runs here; try: chmod go-w",
	} {
		if out, err := h.warmbox(t, "doctor", "--config", file).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("configuration %s: %v: %s", file, err, out)
		}
	}
	// What is in order is taken, also over a link of one's own.
	link(t, h.dir, filepath.Join(h.dir, "self"))
	if err := os.Lchown(filepath.Join(h.dir, "self"), ordinaryUser, ordinaryUser); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{good, filepath.Join(h.dir, "self", "good")} {
		out, err := h.warmbox(t, "exec", "--backend", "process", "--exec-whitelist", "*", "--workspace", work, "--audit-file", file, "--config", h.given(t, file), "--", "echo $TOKEN").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "‹secret›") {
			t.Errorf("%s: %v: %s", file, err, out)
		}
	}
}
