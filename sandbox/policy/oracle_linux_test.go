package policy

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	oracleRuns = flag.Int("oracle", 200, "how many allowed random commands each shell runs")
	oracleSeed = flag.Uint64("oracle.seed", 0, "seed of the random commands; 0: a random seed")
)

// bash and dash run the allowed rows of the tables, and many allowed random commands,
// in a directory where every program logs that it was started. They must start only
// listed programs.
func TestAllowedCommandsStartListedProgramsOnly(t *testing.T) {
	seed := *oracleSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to repeat these commands: -oracle.seed=%d", seed)
	trials := make(chan trial)
	var workers sync.WaitGroup
	for range 2 {
		l := newLab(t)
		workers.Go(func() {
			for tr := range trials {
				l.check(t, tr)
			}
		})
	}
	e := newEditor(t, seed)
	for _, tr := range e.seeds {
		if tr.list.Check(tr.cmd, nil) == nil {
			trials <- tr
		}
	}
	for range *oracleRuns {
		trials <- e.allowed()
	}
	close(trials)
	workers.Wait()
	t.Logf("generated %d random commands for %d allowed ones", e.made, *oracleRuns)
}

// This is the control: the lab detects the programs that refused commands start.
func TestLabDetectsUnlistedPrograms(t *testing.T) {
	l := newLab(t)
	list := Commands{Allow: []string{"ls", "find", "sed", "awk", "env", "xargs", "cat", "tar"}}
	for _, cmd := range []string{
		"rm x", "ls; rm x", "ls $(rm x)", `ls "${x:-'$(rm x)'}"`, "/bin/rm x", "./evil", "nosuch", "go get x", "cat <<E\n`rm x`\nE",
		"find . -exec rm {} +", "find . -e* rm {} +", "env rm x", "ls | xargs rm", "sed -n '1e rm x' x", `awk 'BEGIN{system("rm x")}'`, "tar cf /tmp/t --ch* x",
	} {
		for _, shell := range []string{"bash", "dash"} {
			if l.unlisted(t, shell, trial{cmd, list}) == "" {
				t.Errorf("%s runs %q, but the lab detects nothing", shell, cmd)
			}
		}
	}
	if l.unlisted(t, "dash", trial{"ls >new", listOf(readers)}) == "" {
		t.Error("the lab does not detect a new file in the workspace")
	}
	for _, cmd := range []string{"RANDOM='a[$(rm x)]'", "echo", "export x", "ls; x"} {
		if l.unlisted(t, "bash", trial{cmd, list}) == "" {
			t.Errorf("bash runs %q, but the lab detects nothing", cmd)
		}
	}
}

// FuzzOracle runs the allowed commands of a fuzzer in the shells.
func FuzzOracle(f *testing.F) {
	l := newLab(f)
	for _, cmd := range shapes {
		f.Add(cmd)
	}
	f.Fuzz(func(t *testing.T, cmd string) {
		if tr := (trial{cmd, listOf(readers)}); tr.list.Check(cmd, nil) == nil {
			l.check(t, tr)
		}
	})
}

// A lab is a root directory with some shells, whose PATH has only shims that log
// their name and arguments. Some shims then run the real program, so that the lab
// also detects the programs that it starts.
type lab struct {
	root   string
	shells []string
}

const (
	fieldEnd, recordEnd = "\x1f", "\x1e" // no allowed command contains these

	shim = "#!/real/dash\n" +
		"name=${0##*/}\n" +
		"printf '%s" + fieldEnd + "' \"$name\" \"$@\" '" + recordEnd + "' >>/log || exit 1\n" +
		"[ \"$name\" = ls ] && echo \"x -delete -y 'a b' rm\"\n" +
		"[ -x \"/real/$name\" ] && [ \"$name\" != dash ] && [ \"$name\" != bash ] && PATH=/bin exec \"/real/$name\" \"$@\"\n" +
		"exit 0\n"

	// Builtins are disabled, so that bash searches for them as for programs.
	bashStart = "command_not_found_handle() { /bin/notfound \"$@\"; }\n" +
		"enable -n alias bg bind break builtin caller command compgen complete compopt continue declare dirs disown echo eval exec exit export " +
		"false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return set shift " +
		"shopt source suspend test times trap true type typeset ulimit umask unalias unset wait '[' ':' '.' cd enable\n"

	content = "rm x\n" // of all files in the workspace

	// A loop ends when the log is full, since shims then fail.
	bounded = `ulimit -f 64 -t 2; exec "$@"`
)

func newLab(t testing.TB) *lab {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can give a program a root directory of its own")
	}
	l := &lab{root: t.TempDir()}
	for _, dir := range []string{"bin", "usr/bin", "usr/local/bin", "sbin", "real", "dev", "tmp", "workspace/pkg"} {
		must(t, os.MkdirAll(filepath.Join(l.root, dir), 0o755))
	}
	for _, name := range []string{"tmp", "workspace"} {
		must(t, os.Chmod(filepath.Join(l.root, name), 0o777))
	}
	for _, name := range []string{"bash", "dash", "busybox", "find", "xargs", "env", "timeout", "nice", "nohup", "setsid", "sed", "awk", "tar", "sort"} {
		switch ok, isShell := l.bring(t, name), strings.HasSuffix(name, "sh") || name == "busybox"; {
		case ok && isShell:
			l.shells = append(l.shells, name)
		case isShell && name != "busybox": // rare, and it runs its own ls and rm without a shim
			missing(t, name)
		}
	}
	l.furnish(t)
	return l
}

// missing skips a test that lacks a program, or fails it if the machine must have one.
func missing(t testing.TB, what string) {
	t.Helper()
	if strings.Contains(os.Getenv("WARMBOX_REQUIRE"), "shells") {
		t.Fatalf("WARMBOX_REQUIRE demands shells, but %s is missing", what)
	}
	t.Skipf("%s is missing on this machine", what)
}

// bring copies a program of this machine and its libraries into the lab.
func (l *lab) bring(t testing.TB, name string) bool {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		return false
	}
	l.copy(t, path, "real/"+name)
	libraries, err := exec.Command("ldd", path).Output()
	if err != nil {
		return true // a static one
	}
	for _, lib := range regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1) {
		l.copy(t, lib, lib)
	}
	return true
}

func (l *lab) copy(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	must(t, err)
	l.put(t, to, string(data), 0o755)
}

func (l *lab) put(t testing.TB, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(l.root, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), mode))
	must(t, os.Chmod(path, mode)) // regardless of the umask
}

func (l *lab) furnish(t testing.TB) {
	t.Helper()
	for name := range strings.FieldsSeq("notfound ls cat grep head tail wc go npm python pytest cargo make rg git diff date mkdir tee nproc which sleep cut tr basename dirname uniq stdbuf time " +
		"find xargs env timeout nice nohup setsid sed awk tar sort " +
		"rm sh bash dash id evil touch gzip bzip2 xz lzma lzip zstd compress rsh ssh echo printf test pwd true false kill node less man") {
		for _, dir := range []string{"bin/", "usr/bin/", "usr/local/bin/", "sbin/"} {
			l.put(t, dir+name, shim, 0o755)
		}
	}
	l.put(t, "workspace/evil", shim, 0o755)
	for name := range strings.FieldsSeq("README.md main.go go.mod x y -delete -exec --checkpoint=1 --checkpoint-action=exec=rm pkg/a.go") {
		l.put(t, "workspace/"+name, content, 0o644)
	}
	l.put(t, "start", bashStart, 0o644)
	l.put(t, "dev/null", "", 0o666)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// check runs an allowed command in every shell.
func (l *lab) check(t testing.TB, tr trial) {
	for _, shell := range l.shells {
		if what := l.unlisted(t, shell, tr); what != "" {
			t.Errorf("%q is allowed by %q, and %s starts %s", tr.cmd, tr.list.Allow, shell, what)
		}
	}
}

// unlisted runs a command and returns a program that it started and the list does not
// have, or "".
func (l *lab) unlisted(t testing.TB, shell string, tr trial) string {
	l.reset(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	args := []string{"-c", bounded, "dash", "/real/" + shell, "-c", tr.cmd}
	if shell == "busybox" {
		args = slices.Insert(args, 4, "ash")
	}
	cmd := exec.CommandContext(ctx, "/real/dash", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: l.root, Setpgid: true,
		Credential: &syscall.Credential{Uid: 65534, Gid: 65534},
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Dir = "/workspace"
	cmd.Env = []string{"PATH=/bin", "HOME=/tmp", "BASH_ENV=/start", "LC_ALL=C.UTF-8"}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Errorf("run %q: %v", tr.cmd, err)
		return ""
	}
	cmd.Wait() // its exit code does not matter
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	for line := range strings.Lines(stderr.String()) {
		if shell != "bash" && strings.HasSuffix(line, ": not found\n") {
			return line
		}
	}
	if name := l.written(); name != "" && !slices.ContainsFunc(tr.list.Allow, func(entry string) bool { return entry == "tar" || entry == "sed" || entry == "sort" }) {
		return "to write " + name + " into the workspace"
	}
	return l.logged(t, tr.list)
}

// written returns the name of a changed file in the workspace, or "".
func (l *lab) written() string {
	entries, err := os.ReadDir(filepath.Join(l.root, "workspace"))
	if err != nil {
		return err.Error()
	}
	for _, e := range entries {
		data, _ := os.ReadFile(filepath.Join(l.root, "workspace", e.Name()))
		if !e.IsDir() && e.Name() != "evil" && string(data) != content {
			os.Remove(filepath.Join(l.root, "workspace", e.Name()))
			return e.Name()
		}
	}
	return ""
}

func (l *lab) reset(t testing.TB) {
	l.put(t, "log", "", 0o666)
	entries, err := os.ReadDir(filepath.Join(l.root, "tmp"))
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		os.RemoveAll(filepath.Join(l.root, "tmp", e.Name()))
	}
}

// logged checks the log of the shims.
func (l *lab) logged(t testing.TB, list Commands) string {
	log, err := os.ReadFile(filepath.Join(l.root, "log"))
	if err != nil {
		t.Error(err)
	}
	for record := range strings.SplitSeq(string(log), recordEnd+fieldEnd) {
		words := strings.Split(strings.TrimSuffix(record, fieldEnd), fieldEnd)
		if words[0] == "notfound" {
			words = words[1:]
		}
		if record != "" && !startedBy(list, words) {
			return strings.Join(words, " ")
		}
	}
	return ""
}

func startedBy(list Commands, words []string) bool {
	if slices.Contains(list.Allow, "tar") && packs(words) {
		return true
	}
	switch words[0] {
	case "[", ":":
		words = append([]string{map[string]string{"[": "test", ":": "true"}[words[0]]}, words[1:]...)
	case "set":
		return len(words) > 1 && strings.Trim(words[1], "-+euxo") == ""
	case "git", "go":
		words = slices.Clone(words)
		for len(words) > 2 && strings.HasPrefix(words[1], "-") {
			width := 2
			if words[1] == "--no-pager" {
				width = 1
			}
			words = slices.Delete(words, 1, 1+width)
		}
	}
	return slices.ContainsFunc(list.Allow, func(entry string) bool {
		want := strings.Fields(entry)
		return len(words) >= len(want) && slices.Equal(words[:len(want)], want)
	})
}

// packs reports whether tar itself starts a program, to compress or decompress.
func packs(words []string) bool {
	packers := []string{"gzip", "gzip -d", "bzip2", "bzip2 -d", "xz", "xz -d", "lzma", "lzma -d", "lzip", "lzip -d", "zstd", "zstd -d", "compress", "compress -d"}
	line := strings.TrimPrefix(strings.Join(words, " "), "sh -c ")
	return slices.Contains(packers, line)
}
