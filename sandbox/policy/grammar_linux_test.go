package policy

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var (
	grammarRuns  = flag.Int("grammar", 300, "how many allowed random lines the real git, tar, find and others run")
	grammarTool  = flag.String("grammar.tool", "", "test only this program; go, which compiles its library first, is tested only if named here")
	grammarCache = flag.String("grammar.cache", "", "the directory of go's build cache, for reuse by the next run; empty: a new one")
)

// The test generates random lines of the programs' options, with a canary or another
// option for each value, and runs those that are allowed: they must not start a
// canary. So it finds a table that has the arity of an option wrong, or an option
// that runs its value.
func TestAllowedLinesStartNoOtherProgram(t *testing.T) {
	seed := *oracleSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to repeat these lines: -oracle.seed=%d", seed)
	var left, ran, made, well atomic.Int64
	left.Store(int64(*grammarRuns))
	var workers sync.WaitGroup
	for i := range 2 {
		b := newBench(t)
		g := &lineMaker{random: rand.New(rand.NewPCG(seed, uint64(i))), tools: b.tools}
		workers.Go(func() {
			for left.Add(-1) >= 0 && !t.Failed() {
				line := g.allowed()
				ran.Add(1)
				for _, name := range b.started(t, line) {
					t.Errorf("%q is allowed, and starts %s", line, name)
				}
			}
			made.Add(int64(g.made))
			well.Add(int64(b.well))
		})
	}
	workers.Wait()
	t.Logf("ran %d of %d generated lines; %d succeeded", ran.Load(), made.Load(), well.Load())
}

// This is the control: the bench detects a canary that a refused line starts.
func TestBenchDetectsCanaries(t *testing.T) {
	b := newBench(t)
	lines := []string{
		"git grep -e -- '-O./canary;'", "git --no-pager grep -GO./canary x", "git fetch -o -- --upload-pack=./canary .", "git clone -u ./canary . new", "git -c alias.x='!canary' x", "git ls-remote --upload-pack=canary .",
		"git submodule foreach canary", "git difftool -y -x canary HEAD~1", "git rebase -x canary HEAD~1", "git merge -s canary side", "tar -cf /dev/null a --checkpoint=1 --checkpoint-action=exec=canary", "tar -I canary -cf x.tar a",
		"find . -name a -exec canary ';'", "ls | xargs canary", "nice canary ls", "timeout 5 canary", "env canary", "sort -S 1b --compress-program=canary many", "sed '1e canary' a", "awk 'BEGIN{system(\"canary\")}'", "GIT_EXTERNAL_DIFF=canary git diff HEAD~1",
		"git log -1 --pretty=%GG", "git log --format='% GK'", "git show -s --format='%<(10)%G?'", "git shortlog --group=%GS HEAD",
	}
	if *grammarTool == "go" {
		lines = append(lines, "go vet -vettool=./canary .", "go test -exec ./canary .", "go build -a -toolexec=./canary .", "go run -exec=./canary .", "go -C . test -count=1 -exec ./canary .")
	}
	for _, line := range lines {
		list := Commands{Allow: b.tools}
		if list.Check(line, nil) == nil {
			t.Errorf("%q is allowed", line)
		}
		if strings.Contains(line, "submodule") {
			continue // runs nothing without a submodule
		}
		if len(b.started(t, line)) == 0 {
			t.Errorf("%q should start a canary, but the bench detects none", line)
		}
	}
}

// The test generates formats from pieces, and git shows a signed commit in those that
// are allowed: it must not start gpg.
func TestAllowedFormatsStartNoGpg(t *testing.T) {
	b := newBench(t)
	seed := *oracleSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to repeat these formats: -oracle.seed=%d", seed)
	g := &lineMaker{random: rand.New(rand.NewPCG(seed, 0))}
	var lines []string
	for ran := 0; ran < *grammarRuns/2; {
		format := g.pick("", "", "format:", "tformat:")
		for range 1 + g.random.IntN(5) {
			format += g.pick("%", "%", "%", "%%", "G", "GG", "G?", "h", "x25", "x", "n", "+", "-", " ", "<(9)", ">>|(9)", "<", "(9)", "w(1,2)", "w(", "C(auto)", "C", "C(", "(trailers:separator=", "(describe)", "(", ")", "%h", "%an", "a", "gd", "%x25", "%n", "%<(9)")
		}
		g.made++
		if line := "git log -1 --pretty=" + quote(format); listOf("git").Check(line, nil) == nil {
			lines = append(lines, line)
			ran++
		}
	}
	for batch := range slices.Chunk(lines, 25) {
		if len(b.started(t, strings.Join(batch, " ; "))) > 0 {
			t.Errorf("one of these lines starts gpg: %q", batch)
		}
	}
	t.Logf("ran %d formats of %d", len(lines), g.made)
}

// A bench is a directory with a repository, and a PATH of the guarded programs and of
// canaries, which log that they were started.
type bench struct {
	dir   string
	cache string // of go's builds
	tools []string
	runs  int
	well  int // runs that succeeded
}

const canaryProgram = "#!/bin/sh\necho \"$0 $*\" >>%s/log\nexit 0\n"

func newBench(t testing.TB) *bench {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can run programs as nobody")
	}
	b := &bench{dir: t.TempDir(), cache: *grammarCache}
	if b.cache == "" {
		b.cache = filepath.Join(b.dir, "home", "cache")
	}
	for dir := b.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	for _, name := range []string{"bin", "home"} {
		must(t, os.Mkdir(filepath.Join(b.dir, name), 0o777))
		must(t, os.Chmod(filepath.Join(b.dir, name), 0o777))
	}
	wanted := strings.Fields("git find xargs env timeout nice sed awk tar sort ls rg")
	if *grammarTool == "go" {
		wanted = append(wanted, "go")
	}
	for _, name := range slices.Concat(wanted, strings.Fields("sh bash dash cat gzip bzip2 xz mkdir rm cp basename dirname uname tr expr printf cut head wc touch")) {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		must(t, os.Symlink(path, filepath.Join(b.dir, "bin", name)))
		if slices.Contains(wanted, name) {
			b.tools = append(b.tools, name)
		}
	}
	if !slices.Contains(b.tools, "git") {
		missing(t, "git")
	}
	for _, name := range strings.Fields("canary gpg git-canary git-merge-canary git-remote-canary git-difftool--canary") {
		b.canary(t, "bin/"+name)
	}
	b.write(t, "home/.gitconfig", "[user]\nname = a\nemail = a@b\n[gc]\nauto = 0\nautoDetach = false\n[maintenance]\nauto = false\n[protocol \"file\"]\nallow = always\n")
	b.write(t, "home/.config/go/env", "")
	b.repository(t)
	return b
}

func (b *bench) write(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(b.dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o777))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

func (b *bench) canary(t testing.TB, name string) {
	t.Helper()
	b.write(t, name, fmt.Sprintf(canaryProgram, b.dir))
	must(t, os.Chmod(filepath.Join(b.dir, name), 0o755))
}

// repository creates the directory that lines run in. It is called again from time to
// time, since lines change the directory.
func (b *bench) repository(t testing.TB) {
	t.Helper()
	for name, text := range map[string]string{
		"model/a": "x\nfoo\n-- -Ocanary 1\n", "model/f": "x\ncanary\n", "model/sub/go.mod": "module sub\n", "model/go.mod": "module m\n\ngo 1.21\n", "model/main.go": "package main\n\nfunc main() {}\n",
		"model/x_test.go": "package main\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) {}\n", "model/many": strings.Repeat("some line that is sorted\n", 2000),
	} {
		b.write(t, name, text)
	}
	b.canary(t, "model/canary")
	b.write(t, "log", "")
	must(t, os.Chmod(filepath.Join(b.dir, "log"), 0o666))
	out, err := exec.Command("chown", "-R", "65534:65534", filepath.Join(b.dir, "model"), filepath.Join(b.dir, "home")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	setup := "git init -q -b main . && git add -A && git commit -qm one && git branch side && echo y >>a && git commit -qam two && git tag v1 && git checkout -q side && echo z >>f && git commit -qam three && git checkout -q main && " +
		"git cat-file commit HEAD | sed '/^committer/a gpgsig -----BEGIN PGP SIGNATURE-----\\n \\n x\\n -----END PGP SIGNATURE-----' >signed && git reset -q --hard $(git hash-object -t commit -w signed) && rm signed"
	if out, err := b.command(t.Context(), "model", "sh", setup).CombinedOutput(); err != nil {
		t.Fatalf("make a repository: %v: %s", err, out)
	}
	if *grammarTool == "go" {
		b.warm(t)
	}
}

// warm fills the build cache, so that a line does not compile the standard library.
func (b *bench) warm(t testing.TB) {
	t.Helper()
	must(t, os.MkdirAll(b.cache, 0o777))
	must(t, os.Chown(b.cache, 65534, 65534))
	if out, err := b.command(t.Context(), "model", "sh", "go vet . && go test . && go build -o /dev/null .").CombinedOutput(); err != nil {
		t.Fatalf("warm the build cache: %v: %s", err, out)
	}
}

func (b *bench) command(ctx context.Context, dir, shell, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(b.dir, "bin", shell), "-c", line)
	cmd.Dir = filepath.Join(b.dir, dir)
	cmd.Env = []string{"PATH=" + filepath.Join(b.dir, "bin"), "HOME=" + filepath.Join(b.dir, "home"), "LC_ALL=C.UTF-8", "GOPROXY=off", "GOCACHE=" + b.cache, "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod", "TMPDIR=" + filepath.Join(b.dir, "home"), "GIT_CONFIG_NOSYSTEM=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// started runs a line and returns the canaries that it started.
func (b *bench) started(t testing.TB, line string) []string {
	const fresh = 15 // lines that share a directory
	if b.runs%fresh == 0 {
		work := filepath.Join(b.dir, "work")
		must(t, os.RemoveAll(work))
		if out, err := exec.Command("cp", "-a", filepath.Join(b.dir, "model"), work).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	b.runs++
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := b.command(ctx, "work", []string{"bash", "dash"}[b.runs%2], "ulimit -f 20000; "+line)
	if err := cmd.Start(); err != nil {
		b.runs = 0 // the line before has removed its directory
		return nil
	}
	if cmd.Wait() == nil {
		b.well++
	}
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	log, err := os.ReadFile(filepath.Join(b.dir, "log"))
	must(t, err)
	if len(log) > 0 {
		must(t, os.Truncate(filepath.Join(b.dir, "log"), 0))
	}
	return strings.Split(strings.TrimSuffix(string(log), "\n"), "\n")[:min(strings.Count(string(log), "\n"), 3)]
}

// A lineMaker generates lines with options of the programs: those of the grammars,
// those of the manuals that run something, and random letters.
type lineMaker struct {
	random *rand.Rand
	tools  []string
	made   int
}

// allowed generates lines until one is allowed.
func (g *lineMaker) allowed() string {
	list := Commands{Allow: g.tools}
	for {
		g.made++
		if line := g.line(); list.Check(line, nil) == nil {
			return line
		}
	}
}

func (g *lineMaker) pick(of ...string) string { return of[g.random.IntN(len(of))] }

func (g *lineMaker) line() string {
	tool := g.tools[g.random.IntN(len(g.tools))]
	if g.random.IntN(2) == 0 {
		tool = "git"
	}
	if *grammarTool != "" {
		tool = *grammarTool
	}
	prefix := ""
	if g.random.IntN(10) == 0 {
		prefix = g.pick("A=canary ", "LC_ALL=C ", "PAGER=canary ", "PAGER=cat ", "GIT_PAGER=cat ", "TMPDIR=/tmp/canary ", "CFLAGS=canary ", "TERM=canary ", "LANG=canary ", "x=canary ", "EDITOR=canary ", "EDITOR=true ", "GIT_SSH=canary ", "TAR_RSH=canary ", "FOO='!canary' ")
	}
	words := append([]string{tool}, g.arguments(tool)...)
	if g.random.IntN(8) == 0 { // any word becomes another
		words[g.random.IntN(len(words))] = g.value()
	}
	if g.random.IntN(8) == 0 {
		words = slices.Insert(words, 1+g.random.IntN(len(words)), "--")
	}
	for i, w := range words[1:] {
		words[i+1] = quote(w)
	}
	return prefix + strings.Join(words, " ")
}

func quote(w string) string {
	if isPlain(w) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", "") + "'"
}

// subcommands are those of gitOptions, and others.
const subcommands = "status diff diff-tree diff-index diff-files log show whatchanged rev-list shortlog reflog add commit branch checkout switch restore reset clean rm mv stash fetch pull push clone ls-remote merge rebase cherry-pick revert tag " +
	"remote submodule worktree bisect notes archive init config grep blame annotate rev-parse ls-files ls-tree describe merge-base cat-file apply for-each-ref show-ref name-rev fsck gc check-ignore count-objects symbolic-ref hash-object version canary difftool"

func (g *lineMaker) arguments(tool string) (words []string) {
	var o options
	switch tool {
	case "git":
		for range g.random.IntN(2) {
			words = append(words, g.pick("--no-pager", "-c", "-C", "--exec-path=.", "-p", "-ccolor.ui=never", "--config-env=a.b=C"))
			if last := words[len(words)-1]; last == "-c" || last == "-C" {
				words = append(words, g.pick("user.name=canary", "core.pager=canary", "alias.x=!canary", "core.pager=cat", "sub", "diff.external=canary", "--", "core.editor=true"))
			}
		}
		name := g.pick(strings.Fields(subcommands)...)
		words = append(words, name)
		if verbs, ok := gitVerbs(name); ok && g.random.IntN(4) > 0 {
			verb := g.pick(strings.Fields(verbs + " foreach run canary")...)
			words, name = append(words, verb), name+" "+verb
		}
		o, _ = gitOptions(name)
		o.numbers = true
	case "go":
		name := g.pick("build", "run", "test", "vet", "install", "list", "get", "fmt", "generate", "clean", "doc", "env", "version", "mod tidy", "mod download", "mod why", "mod graph", "mod vendor", "tool cover", "tool nm")
		flags, _ := goFlags(name)
		words = append(words, strings.Fields(name)...)
		for range g.random.IntN(4) {
			words = append(words, g.flagOfGo(flags)...)
		}
		return append(words, g.pick(".", "./...", "canary", "./canary", "main.go", "-exec"), g.value())
	case "find":
		words = append(words, g.pick(".", "canary", "sub"))
		for range 1 + g.random.IntN(4) {
			words = append(words, g.pick(strings.Fields(findTests+" "+findValues+" "+findCounts+" -exec -execdir -ok -delete -fprintf")...))
			if g.random.IntN(2) == 0 {
				words = append(words, g.value())
			}
			if g.random.IntN(3) == 0 {
				words = append(words, "-exec", g.pick("ls", "canary", "./canary", "{}", "nice"), g.value(), g.pick(";", "+", "{} +"))
			}
		}
		return words
	case "sed", "awk":
		o = options{flags: "nErsuz", values: "elFv", glued: "i", long: "expression= quiet in-place? posix field-separator= assign= file= in-place debug sandbox"}
		for range g.random.IntN(3) {
			words = append(words, g.option(o)...)
		}
		return append(words, g.pick("1e canary", "s/x/canary/e", "s/x/canary/", "p", "1,2p", "$!d", "w canary", "s/./canary/gI;e", "1i canary", "1i canary;e canary", "1i\\\ncanary", "1i x\\\n1e canary", "a x\ne canary", "a x\\", "1c x }", "y/a/b/", "y/ab/e\\/e canary", "y|a|b|;1e canary", "N;P;D", "N;s/\\n/e canary/", "1!G;h;$!d", "i", "i\\", "e canary", "BEGIN{system(\"canary\")}", "{print | \"canary\"}", "{print $1}", "BEGIN{\"canary\"|getline}", "{x=\"canary\"; print x}", "{print > \"canary\"}", "{a || b}"), g.pick("a", "f", "canary"), g.value())
	case "ls":
		return []string{g.value()}
	case "xargs", "env", "timeout", "nice":
		o = options{flags: "0rtxiv", values: "nPILsdEkaSCu", long: "adjustment= signal= kill-after= preserve-status foreground null max-args= delimiter= split-string= chdir= unset= ignore-environment", numbers: true}
		for range g.random.IntN(3) {
			words = append(words, g.option(o)...)
		}
		if tool == "timeout" && g.random.IntN(4) > 0 {
			words = append(words, g.pick("5", "canary", "1s", "--"))
		}
		if g.random.IntN(5) == 0 {
			words = append(words, g.pick("5", "A=canary", "--", "-5", "canary"))
		}
		return append(words, g.pick("ls", "ls", "canary", "git", "find", "nice", "./canary", "sort"), g.value())
	case "tar":
		o = options{flags: "cxtruAdvzjJZapkmhSOPUiowWlsBn", values: "fCbNXITFgVHK", long: "file= directory= strip-components= exclude= owner= mode= mtime= sort= to-command= checkpoint= checkpoint-action= use-compress-program= rsh-command= info-script= gzip xz create extract list one-top-level? to-stdout null totals"}
		words = append(words, g.pick("-cf", "-xf", "tf", "cf", "xzf", "-tf", "czf", "cvfI", "-c"), g.pick("x.tar", "canary", "h:canary", "/dev/null"))
	case "sort":
		o = options{flags: "bdfgiMhnRrVcCmsuzo", values: "ktST", long: "key= field-separator= buffer-size= temporary-directory= compress-program= output= parallel= reverse unique files0-from= batch-size= debug check?"}
		words = append(words, "many")
	case "rg":
		o = options{flags: "abcFHhiIlLnNopPqsSuUvVwx0z", values: "ABCdEefgjmMrtT", long: "regexp= file= glob= pre= pre-glob= hostname-bin= search-zip sort= type= replace= json stats hidden files"}
		words = append(words, "x")
	}
	for range g.random.IntN(4) {
		words = append(words, g.option(o)...)
	}
	for range g.random.IntN(3) {
		words = append(words, g.value())
	}
	return words
}

// option returns an option of a grammar, or one that runs something, in one of its forms.
func (g *lineMaker) option(o options) []string {
	switch g.random.IntN(9) {
	case 0: // a cluster of any letters
		letters := "-"
		for range 1 + g.random.IntN(3) {
			letters += g.pick(strings.Split("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "")...)
		}
		return []string{letters + g.pick("", "canary"), g.value()}
	case 1:
		return []string{g.hazard()}
	case 2, 3:
		if all := o.flags + o.values + o.glued; all != "" {
			letters := "-"
			for range 1 + g.random.IntN(3) {
				letters += g.pick(strings.Split(all, "")...)
			}
			return [][]string{{letters}, {letters, g.value()}, {letters + g.value()}}[g.random.IntN(3)]
		}
	}
	names := strings.Fields(o.long)
	if len(names) == 0 {
		return []string{g.value()}
	}
	name := g.pick(names...)
	bare := "--" + strings.TrimRight(name, "?=")
	switch {
	case g.random.IntN(8) == 0 && len(bare) > 5: // an abbreviation
		bare = bare[:len(bare)-1-g.random.IntN(2)]
	case g.random.IntN(8) == 0:
		bare = "--no-" + bare[2:]
	}
	if !strings.HasSuffix(name, "=") && g.random.IntN(3) > 0 {
		return []string{bare}
	}
	if g.random.IntN(2) == 0 {
		return []string{bare + "=" + g.value()}
	}
	return []string{bare, g.value()}
}

func (g *lineMaker) flagOfGo(flags string) []string {
	if g.random.IntN(4) == 0 {
		return []string{g.pick("-exec", "-toolexec", "-vettool", "-toolexec=./canary", "-exec=./canary", "-vettool=./canary", "-args", "--", "-overlay=canary", "-ldflags=-extld=./canary"), g.pick("./canary", "canary", ".")}
	}
	name := g.pick(strings.Fields(flags)...)
	bare, hasValue := strings.CutSuffix(name, "=")
	if !hasValue && g.random.IntN(4) > 0 {
		return []string{"-" + bare}
	}
	if g.random.IntN(2) == 0 {
		return []string{g.pick("-", "--") + bare + "=" + g.value()}
	}
	return []string{"-" + bare, g.value()}
}

func (g *lineMaker) hazard() string {
	return g.pick("-Ocanary", "-O./canary;", "--open-files-in-pager=canary", "--upload-pack=canary", "--upload-pack=./canary;", "--receive-pack=canary", "--exec=canary", "-xcanary", "-x", "-ucanary", "-u", "-O", "-scanary", "--strategy=canary", "--ext-diff", "--textconv",
		"--template=.", "--config=core.pager=canary", "--to-command=canary", "--checkpoint-action=exec=canary", "--checkpoint=1", "-Icanary", "--compress-program=canary", "--pre=./canary", "--hostname-bin=canary", "-exec", "-toolexec=./canary", "-vettool=./canary", "--extcmd=canary",
		"--gpg-sign=canary", "-Scanary", "--use-compress-program=canary", "--rsh-command=canary", "--info-script=canary", "-Fcanary", "-Wexec", "--split-string=canary", "--format=%GG", "--pretty=% GK", "--format=format:%<(5)%G?", "--group=%GS", "--format=%(signature)", "--sort=signature", "--edit", "-e", "-i", "-f", "--remote=.", "--output=canary")
}

// value returns a word for a value or an operand. Most are harmless, others are an
// unlisted program or another option.
func (g *lineMaker) value() string {
	switch g.random.IntN(6) {
	case 0:
		return g.hazard()
	case 1:
		return g.pick("--", "-", "-args", "ext::canary x", "canary::x", "!canary", "|canary", "canary;", "./canary;", ";", "{}", "$(canary)", "`canary`", "-canary", "exec=canary", "h:canary", "ssh://-oProxyCommand=canary/x", "core.pager=canary")
	case 2:
		return g.pick("canary", "./canary", "canary x", "git-canary")
	}
	return g.pick("a", "f", "sub", ".", "HEAD", "HEAD~1", "main", "side", "v1", "x", "1", "2", "5", "new", "HEAD:a", "1,1:a", "always", "never", "ours", "ort", "name", "%H", "1M", "/dev/null", "x.tar", "HEAD~1..HEAD", "user.name")
}
