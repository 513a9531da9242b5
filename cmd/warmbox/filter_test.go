package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/warmbox/warmbox/exectag"
)

// TestFilterSessions runs `warmbox filter` on texts. Each file in testdata/filter says what it
// shows, and has the text (in), what is written (out), and if they are not the usual ones the
// flags (flags, one a line) and the exit code (exit). UPDATE=1 writes what the program wrote into the files.
func TestFilterSessions(t *testing.T) {
	needAgent(t)
	h := newHome(t)
	h.mkdir(t, "work")
	h.program(t) // before the sessions, which run at the same time
	sessions, err := filepath.Glob("testdata/filter/*.txtar")
	if err != nil || len(sessions) < 40 {
		t.Fatalf("%d sessions, want at least 40: %v", len(sessions), err)
	}
	for _, name := range sessions {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			h.filterSession(t, name)
		})
	}
}

func (h home) filterSession(t *testing.T, name string) {
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	flags := []string{"--backend", "process", "--exec-whitelist", "*"}
	if text, ok := files["flags"]; ok {
		flags = strings.Split(strings.TrimSpace(text), "\n")
	}
	cmd := h.warmbox(t, append([]string{"filter", "--log-level", "error"}, flags...)...)
	cmd.Stdin = strings.NewReader(decoded(files["in"]))
	cmd.Env = append(cmd.Env, "TOKEN=hunter2-hunter2")
	written, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if want := strings.TrimSpace(files["exit"]); want != strconv.Itoa(exit.ExitCode()) {
			t.Errorf("exit %d, want %q: %s", exit.ExitCode(), want, exit.Stderr)
		}
	} else if err != nil || files["exit"] != "" {
		t.Errorf("exit 0, want %q: %v", files["exit"], err)
	}
	// Results add no live tag to a text.
	if !strings.Contains(files["flags"], "--json") {
		want := commandsOf(decoded(files["in"]))
		if strings.Contains(files["flags"], "--text-only") {
			want = nil
		}
		if diff := cmp.Diff(want, commandsOf(string(written))); diff != "" {
			t.Errorf("the tags of the text (-) and of the text with results (+):\n%s", diff)
		}
	}
	got := encoded(h.normal(string(written)))
	if os.Getenv("UPDATE") != "" {
		archive.Files = append(withoutOut(archive.Files), txtar.File{Name: "out", Data: []byte(got)})
		if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(files["out"], got); diff != "" {
		t.Errorf("%s (- want, + got):\n%s", strings.TrimSpace(string(archive.Comment)), diff)
	}
}

func withoutOut(files []txtar.File) (list []txtar.File) {
	for _, f := range files {
		if f.Name != "out" {
			list = append(list, f)
		}
	}
	return list
}

// decoded returns a text of a session, in which words in ‹› stand for what a file does not show,
// and "¶" at its end for no newline. encoded returns what stands for a text.
func decoded(text string) string {
	text = strings.TrimSuffix(text, "¶\n")
	return strings.NewReplacer(`‹CR›`, "\r", `‹ESC›`, "\x1b", `‹FF›`, "\xff", "‹ZWSP›", "\u200b").Replace(text)
}

func encoded(text string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "¶\n"
	}
	return strings.NewReplacer("\r", `‹CR›`, "\x1b", `‹ESC›`, "\xff", `‹FF›`, "\u200b", "‹ZWSP›").Replace(text)
}

var (
	aDuration = regexp.MustCompile(`(?m)^Duration: \d+\.\d{3}s$|"durationMs":\d+`)
	anID      = regexp.MustCompile(`\b(b|e)-[0-9a-z]{10}\b`)
	aDigit    = regexp.MustCompile(`\d`)
)

// normal replaces what differs from run to run.
func (h home) normal(text string) string {
	text = aDuration.ReplaceAllStringFunc(text, func(s string) string {
		if strings.HasPrefix(s, `"`) {
			return `"durationMs":0`
		}
		return aDigit.ReplaceAllString(s, "0")
	})
	text = strings.ReplaceAll(text, h.dir, "HOME")
	return anID.ReplaceAllString(text, "$1-ID")
}

// commandsOf returns the commands of the live tags in a text.
func commandsOf(text string) (list []string) {
	var s exectag.Scanner
	for _, p := range append(s.Feed([]byte(text)), s.End()...) {
		if p.Command != "" {
			list = append(list, p.Command)
		}
	}
	return list
}
