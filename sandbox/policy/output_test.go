package policy

import "testing"

// No option and no operand that a grammar calls an output path may place a file at or
// below a .git, or outside of the workspace and /tmp.
func TestOutputPathsStayOutOfGit(t *testing.T) {
	list := listOf("default,git,find,sort,sed,tar,gtar,uniq,go tool cover,go mod,go vet,xargs,env,nice,pytest,cargo")
	for _, c := range []struct {
		name            string
		denied, allowed []string
	}{
		{"go", []string{
			"go build -o .git/hooks/pre-commit", "go build -o=.git/hooks/ ./...", "go build -o ./.git/config .", "go build --o sub/.GIT/x .", "go build -o ../x/.git/config",
			"go build -C .git/hooks", "go -C .git build", "go -C sub/.git test -c", "go test -c -o .git/hooks/", "go test -o .git/hooks/pre-commit -c",
			"go test -coverprofile=.git/config ./...", "go test -outputdir=.git -coverprofile=config ./...", "go test -cpuprofile .git/x", "go test -memprofile=.git/x",
			"go test -blockprofile=.git/x", "go test -mutexprofile=.git/x", "go test -trace .git/x", "go tool cover -html=c -o .git/config", "go build -o /usr/x", "go build -o .g*/config", "go mod init -C .git x",
		}, []string{
			"go build -o bin/x ./cmd/x", "go build -o /tmp/x", "go build -o /dev/null ./...", "go build -o /workspace/bin/ ./...", "go test -coverprofile=cover.out ./...", "go test -coverprofile=/dev/stdout .",
			"go -C sub build -o x", "go test -c", "go test -args -coverprofile", "go tool cover -html=c.out -o /tmp/c.html",
		}},
		{"sort", []string{"sort -o .git/config a", "sort -uo.git/config a", "sort --output=.git/x a", "sort --output .git/x a", "sort -T .git/hooks a", "sort --temporary-directory=.git a", "sort -o ../x a"},
			[]string{"sort -o a a", "sort -T /tmp a", "sort -o /dev/null a", "sort .git/config"}},
		{"sed", []string{"sed -i p .git/config", "sed -i -e p a /workspace/.git/config"}, []string{"sed -i p a", "sed -n p .git/config"}},
		{"uniq", []string{"uniq a .git/config", "uniq - .git/config", "uniq -c a .git/config", "uniq -f1 a .git/config", "uniq -w 3 -- a .git/config", "uniq -2 a .git/config", "uniq +1 a .git/config", "uniq --skip-fields=1 a .git/config", "uniq --skip-fields 1 a .git/config", "uniq a /etc/x", "uniq a $x", "/usr/bin/uniq a .git/x"},
			[]string{"uniq", "uniq -c", "uniq a b", "uniq .git/config", "uniq -d -f 1 a /tmp/b", "uniq --count --ignore-case", "uniq --group=both a", "uniq -D a -"}},
		{"tar", []string{
			"tar -xf x -C .git/hooks", "tar xfC x .git/hooks", "tar -C .git -xf x", "tar -x --directory=.git/hooks -f x", "tar --extract --directory .git -f x", "tar --get -C .git -f x", "tar -xf x --one-top-level=.git", "tar -xf x -C /", "tar -xf x -C /tmp/..", "tar -xf x -C .git/", "tar -C sub -xf x -C .git", "tar -xf x -C /workspace//.git",
			"tar -cf .git/config a", "tar cf .git/config a", "tar --create --file=.git/hooks/x a", "tar -rf .git/x a", "tar --append --file .git/x a", "tar -uf .git/x a", "tar -Af .git/x a", "tar -f .git/x", "gtar cf .git/x a",
		}, []string{"tar -xf x -C sub", "tar -xf x -C /tmp/", "tar -xf x -C /workspace/", "tar -xf x -C /workspace", "tar -cf x -C .git .", "tar -tf .git/x", "tar -xf .git/x", "tar czf /tmp/x.tgz --exclude=.git .", "tar -xzf a.tgz", "tar -df .git/x", "tar -cf - a", "tar -xf x --one-top-level"}},
		{"git", []string{
			"git clone u .git/hooks", "git clone -- u .git/modules/x", "git init .git/hooks", "git -C .git init hooks", "git -C .git clone u", "git -C sub -C .git init", "git worktree add .git/hooks side", "git worktree add -b x .git/hooks", "git worktree move a .git/hooks",
			"git submodule add u .git/hooks", "git -C .git apply p", "git apply --directory=.git/hooks p", "git -C sub/.git apply --directory hooks p", `git worktree add -- "$x"`,
		}, []string{"git clone u x", "git clone u", "git init", "git init x", "git -C sub init", "git -C .git status", "git worktree add x side", "git worktree add /tmp/x", "git worktree move a b", "git -C .git worktree add /tmp/x", "git submodule add u x", "git worktree list", "git apply p", "git apply --directory=sub p", "git -C sub apply ../p"}},
		{"programs without a closed grammar", []string{"cargo build --target-dir .git/hooks", "cargo test --target-dir=.git", "cargo build --artifact-dir=.git/hooks", "pytest --junitxml=.git/config", "pytest --junit-xml .git/config", "python -m pytest --basetemp=.git/hooks", "pytest --log-file=.git/x"},
			[]string{"cargo build --target-dir x", "cargo run -- --target-dir .git", "pytest --junitxml=out.xml"}},
		{"variables", []string{"TMPDIR=.git/hooks ls", "GOCACHE=/workspace/.git/x go vet"}, []string{"TMPDIR=/tmp/x ls", "TMPDIR=/tmp ls", "GOCACHE=x go vet"}},
		{"wrappers", []string{"env nice sort -o .git/config a", "find . -exec sort -o .git/config a ';'"}, []string{"env nice sort -o a a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, cmd := range c.denied {
				if list.Check(cmd, nil) == nil {
					t.Errorf("%q is allowed", cmd)
				}
			}
			for _, cmd := range c.allowed {
				if err := list.Check(cmd, nil); err != nil {
					t.Errorf("%q is denied: %v", cmd, err)
				}
			}
		})
	}
}

// find runs the command of -execdir and -okdir in a directory that the line does not
// name, so a program must not write a relative path there.
func TestExecdirRefusesRelativeOutputPaths(t *testing.T) {
	list := listOf("find,sort,sed,ls,git,tar,go,uniq,env,nice,grep")
	for _, option := range []string{"-execdir", "-okdir"} {
		t.Run(option, func(t *testing.T) {
			for _, cmd := range []string{
				"sed -i s/main/evil/ HEAD ';'", "sed --in-place p HEAD ';'", "sort -o info/attributes HEAD ';'", "uniq HEAD config ';'", "tar -cf config HEAD ';'", "tar -xf /workspace/x ';'", "tar -xf /workspace/x -C hooks ';'",
				"go build ';'", "go build -o hooks/x /workspace/x.go ';'", "go -C hooks build ';'", "git init ';'", "git init x ';'", "git clone /workspace/x ';'", "git worktree add hooks ';'", "git apply /workspace/p ';'", "env nice sort -o x HEAD ';'",
				"sort -T . HEAD ';'",
			} {
				if line := "find .git -name HEAD " + option + " " + cmd; list.Check(line, nil) == nil {
					t.Errorf("%q is allowed", line)
				}
			}
			for _, cmd := range []string{"sort HEAD ';'", "sed -n p HEAD ';'", "ls {} +", "sort -o /tmp/x HEAD ';'", "uniq HEAD ';'", "tar -tf x ';'", "tar -xf x -C /tmp/y ';'", "git status ';'", "grep x {} ';' -exec ls {} +"} {
				if err := list.Check("find . "+option+" "+cmd, nil); err != nil {
					t.Errorf("%q is denied: %v", cmd, err)
				}
			}
		})
	}
	if err := list.Check("find . -execdir ls ';' -exec sort -o a b ';'; sed -i p a", nil); err != nil {
		t.Errorf("a command after that of -execdir is denied: %v", err)
	}
}
