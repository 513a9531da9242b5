package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
	filter := func() ([]byte, error) {
		cmd := h.warmbox(t, append([]string{"filter", "--log-level", "error"}, flags...)...)
		cmd.Stdin = strings.NewReader(decoded(files["in"]))
		cmd.Env = append(cmd.Env, "TOKEN=hunter2-hunter2")
		return cmd.Output()
	}
	written, err := filter()
	// On a loaded machine a plain process that is just ending may be taken for one that stays.
	const ending = `Still running: 1 process, such as "bash"`
	for tries := 0; tries < 3 && strings.Contains(string(written), ending) && !strings.Contains(files["out"], ending); tries++ {
		t.Logf("once more, after:\n%s", written)
		written, err = filter()
	}
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

// TestExampleLoops runs the loops of doc/examples with a model that follows a script. Both lead to
// the same conversation, which ends when an answer has no tag.
func TestExampleLoops(t *testing.T) {
	needAgent(t)
	h := newHome(t)
	work := h.mkdir(t, "work")
	h.write(t, "work/greeting.txt", "hello\n")
	script, err := os.ReadFile("testdata/loop/model")
	if err != nil {
		t.Fatal(err)
	}
	model := h.write(t, "model", string(script))
	want, err := os.ReadFile("testdata/loop/conversation")
	if err != nil {
		t.Fatal(err)
	}
	for name, command := range map[string]func(t *testing.T) []string{
		"go": func(t *testing.T) []string { return []string{h.build(t, "../../doc/examples/loop.go")} },
		"python": func(t *testing.T) []string {
			return []string{"sh", "-c", `exec python3 "$0" "$@"`, h.python(t, "../../doc/examples/loop.py")} // sh finds the one that the user may run
		},
	} {
		t.Run(name, func(t *testing.T) {
			line := append(command(t), "sh", model)
			cmd := h.command(t, line[0], line[1:]...)
			cmd.Dir, cmd.Stdin, cmd.Stderr = work, strings.NewReader("What does the file say?\n"), os.Stderr
			cmd.Env = append(cmd.Env, "WARMBOX_BACKEND=process", "WARMBOX_LOG_LEVEL=error", "PATH="+filepath.Dir(h.program(t))+":"+os.Getenv("PATH"))
			got, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile("testdata/loop/conversation", []byte(h.normal(string(got))), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), h.normal(string(got))); diff != "" {
				t.Errorf("(- want, + got)\n%s", diff)
			}
		})
	}
}

// build builds a program of one file where the user can run it.
func (h home) build(t *testing.T, file string) string {
	t.Helper()
	program := filepath.Join(h.dir, "loop")
	if out, err := exec.Command("go", "build", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := errors.Join(os.Chmod(program, 0o755), h.own(program)); err != nil {
		t.Fatal(err)
	}
	return program
}

// python puts a program where the user can read it, if the machine has Python.
func (h home) python(t *testing.T, file string) string {
	t.Helper()
	if ok, err := has("python3"); !ok {
		skip(t, err, "python3 is not installed")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return h.write(t, "loop.py", string(text))
}

// A liveFilter is a filter whose text is written as a test goes on.
type liveFilter struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (h home) liveFilter(t *testing.T, flags ...string) *liveFilter {
	t.Helper()
	cmd := h.warmbox(t, append([]string{"filter", "--log-level", "error", "--backend", "process", "--exec-whitelist", "*"}, flags...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(waitLimit, func() { cmd.Process.Kill() }) // ends a read that would wait for ever
	t.Cleanup(func() {
		stuck.Stop()
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait() // of one that has not ended
	})
	return &liveFilter{cmd, in, bufio.NewReader(out)}
}

func (f *liveFilter) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(f.in, text); err != nil {
		t.Fatal(err)
	}
}

// reads checks that a text comes next.
func (f *liveFilter) reads(t *testing.T, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(f.out, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v, want %q", got[:n], err, want)
	}
}

// readsTo skips what comes until the end of a line.
func (f *liveFilter) readsTo(t *testing.T, line string) {
	t.Helper()
	for {
		got, err := f.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%q did not come: %v", line, err)
		}
		if got == line+"\n" {
			return
		}
	}
}

// TestFilterStreams: text and results are written while the rest of the text has not come.
func TestFilterStreams(t *testing.T) {
	needAgent(t)
	f := newHome(t).liveFilter(t)
	f.write(t, "Some text, ")
	f.reads(t, "Some text, ")
	f.write(t, "then <ex")
	f.reads(t, "then ")
	f.write(t, "ec echo one>")
	f.reads(t, "<exec echo one>\n=== EXEC SUCCESSFUL: echo one ===\n")
	f.readsTo(t, "=== END EXEC ===")
	f.write(t, "\nand <exec echo 2")
	f.reads(t, "and ")
	f.in.Close()
	f.reads(t, "<exec echo 2")
	if err := f.Wait(); err != nil {
		t.Error(err)
	}
}

// TestFilterInterrupted: a signal ends the command that runs, which its result says, and the
// filter, and nothing of the rest of the text runs.
func TestFilterInterrupted(t *testing.T) {
	needAgent(t)
	h := newHome(t)
	work := h.mkdir(t, "work")
	f := h.liveFilter(t, "--workspace", work)
	f.write(t, "<exec touch begun; sleep 300>\n<exec touch later>\n")
	soon(t, "the command has begun", func() bool {
		_, err := os.Stat(filepath.Join(work, "begun"))
		return err == nil
	})
	if err := f.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	f.readsTo(t, "Message: EXEC_FAILED: interrupted: the command was killed, with every process that it had started")
	f.readsTo(t, "=== END ERROR ===")
	if rest, err := io.ReadAll(f.out); len(rest) > 0 || err != nil {
		t.Errorf("then %q, %v", rest, err)
	}
	if exit, ok := errors.AsType[*exec.ExitError](f.Wait()); !ok || exit.ExitCode() != 125 {
		t.Errorf("got %v, want exit 125", exit)
	}
	if _, err := os.Stat(filepath.Join(work, "later")); err == nil {
		t.Error("a later command ran")
	}
}
