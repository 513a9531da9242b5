package policy

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	builders = "go test,npm run build,python -m pytest,make,ls,cat,grep,find,head,tail,wc"
	readers  = "ls,cat,grep,find,head,tail,wc"
	wrappers = readers + ",go test,xargs,env,timeout,nice,nohup,time,stdbuf,setsid,sed,awk"
	gits     = "git log,git status,git diff,git grep"
	gos      = "go test,go build,go vet,go run"
)

// rule has commands for a list, those that it must allow and those that it must deny.
var rule = []struct {
	about, list     string
	allowed, denied []string
}{
	{
		about: "words of the name", list: builders,
		allowed: []string{"go test", "go\ttest ./...", "python -m pytest tests/test_a.py::test_b", "ls \\\n -l", "ls; ls;", "! ls", "ls &&\nls", "{ ls\n}", "ls -l ''"},
		denied: []string{
			"", " \n", "gotest", "go  testx", "go 'test'", "go te\\st", "go te\\\nst", "g\\\no test", "go $T", "go {test,vet}", "go tes?", "'go' test", "./ls", "~/ls", "ls* x", "=ls", "%1", "ls\\ x",
			"[ -f x ]", "[[ -f x ]]", "test -f x", ". ./x", "npm run", "-ls", "! rm x", "!ls", "ls |", "ls ||", "&& ls", "(ls", "{ ls }", "time ls", "ls;; ls", "if ls; then fi",
		},
	},
	{
		about: "expansions", list: readers,
		allowed: []string{
			"ls $x ${x} ${#x} ${x:-a} ${x-a} ${x:+a} ${x+a} ${x%a} ${x%%a} ${x#a} ${x##a}", `ls "$@" $* $# $? $$ $! $- $1 ${10}`, "ls ~ ~/x *.go a? [ab]* {a,b}", `cat "${f:-$(ls)}"`,
			"ls `cat x`", "ls `cat \\`ls\\``", "ls $(cat $(ls))", "wc -l $(ls | head -1)", `ls ${x:-'a b'}`, `ls ${x:-"a b"}`, `ls "a$"`, "ls $", "ls -\\\nl", "ls \"a\\\nb\"",
		},
		denied: []string{
			"ls ${x:=a}", "ls ${x=a}", "ls ${x:?a}", "ls ${x?a}", "ls ${!x}", "ls ${x:1:2}", "ls ${x/a/b}", "ls ${x//a/b}", "ls ${x^}", "ls ${x,,}", "ls ${x@Q}", "ls ${x[0]}", "ls ${!x*}",
			"ls $((1+1))", "ls $[1+1]", "ls $()", "ls ``", "ls $(# x\n)", "ls <(ls)", "ls >(ls)", "ls $'a'", `ls $"a"`, "ls @(a|b)", "ls ${ ls;}", "ls ${| ls;}", "ls $(<x)", "ls $(rm x)",
			`ls "${x:-'$(rm x)'}"`, `ls "${x#'$(ls)'}"`, `ls "${x:-"a"}"`, `ls "${x:-\a}"`, "cat <<E\n${x:-'$(ls)'}\nE", "ls `rm x`", "ls `ls \\`rm x\\``", "ls \"`ls \"x\"`\"", "ls `ls '`'", "ls `ls \"\\$(rm x)\"`",
			"ls $\\\n(rm x)", "ls <\\\n(rm x)", "ls &\\\n& ls", "ls x\\\n", "ls 2\\\n>x", "ls x\\\n;ls", "PA\\\nTH=x ls", "ls \"$\\\n(rm x)\"",
		},
	},
	{
		about: "here-documents", list: readers,
		allowed: []string{
			"cat <<E\nE", "cat <<E\nE\n", "cat <<E\na $x $(ls) `ls`\nE\nls", "cat <<'E'\n$(rm x) `rm x` \\\n\nE", "cat <<\"E\"\n$(rm x)\nE\n", "cat <<\\E\n$(rm x)\nE", "cat <<-E | wc\n\ta\n\tE\nls",
			"cat <<A\na\nA\ncat <<B\nb\nB", "ls \"$(cat <<E\na\nE\n)\"", "{ cat; } <<E\nx\nE", "cat > /tmp/x <<'EOF'\nrm -rf /\nEOF",
		},
		denied: []string{
			// Our parser ends the first one at ${x}E, and reads rm as data.
			"cat <<E\n${x}E\ncat <<'F'\nE\nrm x\nF",
			// bash reads $(ls) as code, since the line begins with E and has a ).
			"ls \"$(cat <<E\nE$(ls)\nE\n)\"", "cat <<E\nEa\nE", "cat <<E\n\tE\nE",
			"cat <<E\n \\\nE\nrm x\nE", "cat <<E\na\\\nE\nls\nE", "cat <<A <<B\na\nA\nb\nB", "cat <<E", "cat <<E\na", "cat <<$x\n$x", "cat <<E'F'\nEF", "cat <<'E F'\nE F", "cat <<''\n\nls", "cat <<E \"\n\"\na\nE",
			"cat <<E\n$(rm x)\nE", "cat <<E\n$((1))\nE", "cat <<E\n${x:=y}\nE", "cat <<E; rm x\na\nE", "rm <<E\nE",
		},
	},
	{
		about: "redirects", list: readers,
		allowed: []string{"ls >/tmp/x 2>&1", "ls 2>/dev/null", "ls >>/tmp/a/b", "ls <x", "cat <./x/y", "cat < /workspace/x", "cat </tmp/x", "cat <'a b'", "ls 2>&-", "ls <&0", "(ls) >/tmp/x", "for x in a; do ls; done >/tmp/x"},
		denied: []string{
			"ls >x", "ls >./x", "ls >/workspace/x", "ls >/tmp", "ls >/tmp/", "ls >/tmp/../x", "cat >/tmp/warmbox-shells-1/main <x", "ls >/tmpx", "ls >//tmp/x", "ls >'/tmp/x'", "ls >/tmp/$x", "ls >/tmp/*", "ls >/tmp/{a,b}", "ls >/tmp/a\\ b", "ls >~/x", "ls >/dev/stderr", "ls >/dev/tcp/a/1",
			"ls >&x", "ls >&/tmp/x", "ls <&x", "ls 10>/tmp/x", "ls >|/tmp/x", "ls <>/tmp/x", "ls &>/tmp/x", "ls &>>/tmp/x", "ls <<<x", "ls {x}>/tmp/x", "ls >&2-", "ls <../x", "ls </etc/passwd", "ls <~/x", "ls <$x", "ls <*", ">/tmp/x", "x=1 >/tmp/x", "ls 2>", "ls >$(rm x)",
		},
	},
	{
		about: "assignments", list: wrappers,
		allowed: []string{"A=1 ls", "A=1 B=$x ls", "A=1", "A= ls", "A=$(ls) && ls $A", "CGO_ENABLED=0 go test", "for f in *.go; do wc $f; done", "env A=1 B='x y' ls", "GOOS=linux go test", "NO_COLOR=1 ls", "npm=1 ls"},
		denied: []string{
			"PATH=x ls", "PATH= ls", "LD_X=1 ls", "BASH_FUNC_ls=1 ls", "GIT_DIR=x ls", "npm_config_x=1 ls", "NPM_CONFIG_X=1 ls", "CGO_CFLAGS=x go test", "GOFLAGS=-x go test", "for PATH in a; do ls; done", "for IFS in a; do ls; done",
			"env PATH=x ls", "env 'LD_PRELOAD=x' ls", "env A=$x ls", "A+=1 ls", "A=(1 2)", "A[0]=1 ls", "A[$(rm x)]=1", "RUSTC_WRAPPER=x ls", "GOCACHEPROG=/tmp/x go test", "XDG_DATA_HOME=x ls", "WARMBOX_RUN= ls", "warmbox_at=x",
			"RANDOM='a[$(rm x)]'", "OPTIND='a[$(rm x)]' ls", "for RANDOM in 'a[$(rm x)]'; do ls; done", "HISTCMD=1", "for x do ls; done", "for 1x in a; do ls; done", "A=$(rm x)", "A=1 rm x", "export A=1", "A=${x:=1}",
		},
	},
	{
		about: "kinds of commands", list: readers,
		allowed: []string{"if ls; then ls; elif cat x; then ls; else wc x; fi", "while ls; do cat x; done", "until ls x\ndo ls; done", "case x in a|b) ls;; (c) ;; *) cat; esac", "for i in 1 2; do ls; done", "(ls; { ls; })", "ls # $(rm x)", "! ls | cat"},
		denied: []string{
			"f() { ls; }", "function f { ls; }", "ls &", "ls & ls", "(ls &)", "coproc ls", "declare x", "local x", "readonly x=1", "typeset x", "let x=1", "((x=1))", "select x in a; do ls; done", "for ((;;)); do ls; done", "for i in a; { ls; }",
			"case x in a) ls;& b) ls;; esac", "case x in a) rm;; esac", "ls |& cat", "if rm; then ls; fi", "until rm; do ls; done", "eval ls", "exec ls", "command ls", "trap ls EXIT", "# x", "ls\nrm x", "ls # x\nrm x", "ls # \\\nrm x", "ls;# \\\\\nrm x", "ls `ls # \\\nrm x\n`", "ls $(ls # )\nrm x\n)", "@test x { ls; }",
		},
	},
	{
		about: "builtins that evaluate", list: "test,[,printf,echo",
		allowed: []string{"set -e", "set -euo pipefail; echo x", "set +x", "set -o pipefail", "set -u -e", "test -f x", "[ -n \"$x\" ]", "[ ! -d \"$x\" ]", "[ \"$x\" = a ]", "test a -nt b", "printf '%s\\n' \"$x\"", "printf x", "printf '%%n %d\\n' 1", "printf -- '-%s' \"$x\""},
		denied: []string{
			"set", "set -a", "set -k", "set -- x", "set x", "set -o", "set -o allexport", "set -ex $x", "set -eo", "set '-e'", "set - e", "test -v 'a[$(rm x)]'", "[ -v \"$x\" ]", "[ ! -v x ]", "test $x a", "[ $x -o y ]", "test \"$x\" \"$y\"", "[ -R x ]", "[ a -a -v x ]", "[ \"$a\" \"$b\" \"$c\" ]", "test x*", "[ -f \"$x\"* ]", "[ -f \"$x\"{a,b} ]", "[ -f $(ls) ]",
			"printf -v 'a[$(rm x)]' x", "printf -va x", "printf \"$x\" a b", "printf $x", "printf '-v' x y", "printf %n PATH", "printf 'a%%%-5nb' PATH", "printf -- %ln x",
		},
	},
	{
		about: "find", list: readers,
		allowed: []string{"find . -name '*.go'", `find . -name \*.go`, "find src/*", "find . -exec grep -l x {} +", `find . -exec wc {} \; -exec cat {} ';'`, "find . -execdir ls \\;", "find . -name '{a,b}'", "find . \\( -name a -o -name b \\) -print"},
		denied: []string{
			"find $x", "find *", "find . -n*", "find . ''*", "find . -name {a,b}", "find ~-", "find . -delete", "find . '-delete'", "find . -d\\elete", "find . -fprint x", "find . -fprintf x y", "find . -fprint0 x", "find . -files0-from x", "find . -exec rm {} +", "find . -exec", "find . -exec ls",
			"find . -exec ls +", "find . -exec ls x + -delete \\;", "find . -exec 'ls' \\;", "find . -exec {} \\;", "find . -exec find . -delete \\;", "find . -exec find {} \\;", "find . -ok rm \\;", "find . -exec ls \\; -execdir rm \\;",
		},
	},
	{
		about: "wrappers", list: wrappers,
		allowed: []string{
			"ls | xargs cat", "ls | xargs -0 -n 1 cat", "ls | xargs -n1 -P2 grep x", "ls | xargs -I{} cat {}", "ls | xargs -I {} cat {}", "xargs --max-args=1 ls", "env", "env A=1", "env ls", "env A=1 ls", "env -- A=1 ls", "timeout 5 ls", "timeout -s KILL -k 1 5s ls", "timeout --signal=TERM 1m go test ./...",
			"nice ls", "nice -n 5 ls", "nice -5 ls", "nice --adjustment=5 ls", "nohup ls", "time ls", "time -p ls", "time ls | cat", "setsid -w ls", "stdbuf -oL ls", "stdbuf -o L -e0 ls", "timeout 5 nice env A=1 ls", "timeout 5 find . -name x",
		},
		denied: []string{
			"xargs", "xargs rm", "xargs -a x ls", "xargs find", "xargs env ls", "xargs sed p", "xargs -I% % x", "xargs -I ls ls", "xargs -n 1* ls", "xargs -i ls", "xargs --arg-file=x ls", "xargs --max=1 ls", "xargs 'ls'", "xargs timeout 1 ls", "xargs go test",
			"env rm", "env -u A ls", "env -S 'rm x'", "env -i ls", "env - ls", "env -- -u A ls", "env -- rm", "env -0", "env /bin/ls", "timeout 5", "timeout 5 rm", "timeout x ls", "timeout --foo 5 ls", "timeout $x ls", "timeout 1* ls", "nice", "nice -n", "nice rm", "nohup", "nohup rm",
			"time", "time rm", "time -o x ls", "time -v ls", "time $x", "time (rm x)", "time time rm", "setsid -f ls", "stdbuf ls rm x; rm", "stdbuf -x ls", "timeout 5 nice rm", "timeout 5 'ls'", "time FOO=1 rm",
		},
	},
	{
		about: "awk and sed", list: wrappers,
		allowed: []string{
			"awk '{print $1}' x", "awk -F: '$3 > 5 {print $1}' x", "awk -F , -v a=1 '{n += $1} END {printf \"%d\\n\", n}'", "awk '$1 == 1 || $2 == 2'", "awk '{print a >= b}'", "ls | awk '{print}' - x=1 y",
			"sed -n '1,20p' x", "sed -n '/a/,/b/p' x", "sed 's/a/b/g' x", "sed 's|/a|/b|' x", "sed -E 's/(a+)[^,x]?/\\1/gI; 3d; $p; 5q' x", "sed -n -e 1p -e '$=' x", "sed -ne '2,+3p' x", "sed '/x/!d'", "sed 's/[[:space:]]*$//'", "sed --expression=p x", "sed '1~2d' x", "sed 's/a\\/b/c/' x", "sed 10q x", "sed -i s/a/b/ x", "sed -ni p x", "sed --in-place p x ./*.go", "sed -i.bak -e 1d sub/x /tmp/x", "sed y/abc/ABC/ x", "sed 'N;s/\\n/ /' x", "sed '1!G;h;$!d' x", "sed '1i header' x", "sed -i '/x/a new line; more' x", "awk '{print $1 > \"/dev/stderr\"}' x", "awk '{printf \"x\" >> \"/dev/stdout\"; n++}'",
		},
		denied: []string{
			"awk", "awk $x", "awk '{print > \"/dev/stderr\" \"x\"}'", "awk '{print > \"/dev/stderrx\"}'", "awk '{print > \"/dev/stderr\" x}'", "awk '{print > \"/dev/stderr\"} {print > \"y\"}'", "awk '{system(\"x\")}'", "awk '{print | \"x\"}'", "awk '{\"x\" | getline}'", "awk '{print > \"x\"}'", "awk '{printf \"a\" >> \"x\"}'", "awk '@load \"x\"'", "awk -f x y", "awk -i x '{}'", "awk --file=x", "awk --exec x", "awk -e '{}'", "awk -F: -f x", "awk '{print}' -f x",
			"awk '{x |& y}'", "awk '{a ||| b}'", "awk '{print}' $x", "awk a*", "awk '{sys\\\ntem(\"x\")}'", "awk -vf=1 -fx", "awk -F$x '{print}'", "awk --version=1 -l x '{}'",
			"sed", "sed $x", "sed -i s/a/b/ ../x", "sed -i p /etc/x", "sed -i p .git/config", "sed -i p sub/.GIT/config", "sed -i p .*/config", "sed -i p /tmp/*", "sed -i p /tmp/warmbox-shells-1/main", "sed -ix/y p x", "sed --in-place=*/y p x", "sed -i -e p -e e x", "sed -f x", "sed s/a/b/e", "sed 's/a/b/w x'", "sed 1e", "sed 'e rm'", "sed 'w x'", "sed 'r x'", "sed 'W x'", "sed '1!{p}'", "sed -e p -e e", "sed y/a/b/e", "sed y/a", "sed y/a/b\\x2f/e/", "sed 'a\\'", "sed 'a\\' -e w", "sed 'a x\\' -e 'e rm'", "sed 'a x\ne rm'", "sed a", "sed '1i\ne rm'", "sed 'Ne rm'", "sed 'N;r x'", "sed s/a/b/m", "sed 's/[/]x/e/'", "sed 's/[^/]*$//'", "sed 's/a/b\nx/'", "sed s/a/b", "sed 's/a\\x2fb/e/'",
			"sed 's/a/b/;e'", "sed 'p;w x'", "sed --exp=p x", "sed s*", "sed -n --debug p", "sed -E -e", "sed 'sxaxexe'", "sed p\\;e",
		},
	},
	{
		about: "tar, sort, rg, diff", list: "tar,sort,rg,diff",
		allowed: []string{
			"tar xzf a.tgz", "tar -xzf a.tgz -C sub", "tar -tvf a.tar", "tar cf /tmp/a.tar src", "tar --list --file=a.tar", "tar -czf /tmp/x.tgz --exclude=.git .", "tar xf a.tar --strip-components=1",
			"sort -u x", "sort -t, -k2,2n x", "sort -rn -k 2 --reverse x", "sort --key=1 x", "sort -o x x", "sort -uo x y", "sort --output=/tmp/x y", "diff -u a b", "diff -ruN --exclude=.git a b", "diff --color=never -U3 a b", "rg -n foo", "rg -e z -g '*.go' x", "rg -tgo foo", "rg -A3 -i 'a|b' src", "rg foo -- --pre",
		},
		denied: []string{
			"tar -xf a --to-command=x", "tar -xf a --to-command x", "tar xf a --to-c=x", "tar --checkpoint-action=exec=x -cf a b", "tar --checkpoint=1 --checkpoint-act=exec=x", "tar -I x -xf a", "tar xIf x a", "tar -Ix -xf a", "tar --use-compress-program=x -xf a", "tar --use=x", "tar -F x -xf a", "tar xfF a x", "tar --info-script=x", "tar --rsh-command=x", "tar xf host:a", "tar -xf host:a", "tar --file=host:a -x",
			"tar -T x", "tar x*", "tar $x", "tar --rmt-command=x",
			"sort -o /etc/x y", "sort -uo ../x y", "sort --output=.git/hooks/x y", "sort -o /tmp/warmbox-x y", "sort -ox* y", "sort --out=x y", "diff -l a b", "diff --paginate a b", "diff -ul a b", "diff --pag a b", "diff $x b", "sort --compress-program=x", "sort --compress-program x", "sort --c=x", "sort -T", "sort x*y *", "sort $x",
			"rg --pre x y", "rg --pre=x y", "rg -z x", "rg -iz x", "rg --search-zip x", "rg --hostname-bin=x y", "rg $x",
		},
	},
	{
		about: "git", list: gits,
		allowed: []string{"git status", "git -C x log", "git --no-pager log", "git --no-pager -c color.ui=never log -1", "git log @{u}..", "git log main@{1} -- x", "git diff @{-1}...@{upstream}", "git log --oneline -5", "git log -SOps", "git diff --stat HEAD~1 -- a b", "git diff --text", "git grep -n foo -- '*.go'", "git log --author='a b'", "git diff --output-indicator-new=+", "git diff a -- -O x", "git log --no-ext-diff --color=never"},
		denied: []string{
			"git", "git push", "git -c a=b log", "git -C ../x log", "git -C x push", "git --no-pager push", "git $x log", "git * log", "git --exec-path=x log", "git log --output=x", "git log --outp x", "git diff --ext-diff", "git diff --ext", "git diff --textconv", "git diff --textc", "git grep -O x", "git grep -Ox y", "git grep -nOx y", "git grep -GOx y", "git grep --open-files-in-pager", "git grep --open=x y",
			"git log -c", "git log --upload-pack=x", "git log --exec=x", "git log --execute=x", "git diff $x", "git diff *", "git log --git-dir=x", "git 'log'", "git diff -Ox",
		},
	},
	{
		about: "make", list: builders,
		allowed: []string{"make -j4 all", "make -C sub test", "make --directory=sub", "make -f sub/x.mk", "make -f /workspace/x.mk", "make A=1 B=a,b", "make -k -s test", "make CC=clang", "make -j 4", "make --jobs=4 -B", "make a:=b"},
		denied: []string{
			"make SHELL=x", "make SHELL:=x", "make SHELL+=x", "make .SHELLFLAGS=-c", "make MAKEFLAGS=x", "make PATH=/tmp", "make LD_PRELOAD=x", "make CC=/tmp/x", "make A='b c'", "make 'A=$(shell rm x)'", "make A!=x", "make --eval=x", "make --eva x", "make -E x", "make -f -", "make -f /dev/stdin", "make -f ../x", "make --file=/tmp/x", "make --makefile=/tmp/x", "make --fil=x",
			"make -nf /tmp/x", "make -C /tmp", "make -C/tmp", "make -C ..", "make -sC../x", "make -I /tmp", "make $x", "make x*", "make 'a;b'", "make --directory /tmp", "make -n --dir=/tmp",
		},
	},
	{
		about: "go", list: gos,
		allowed: []string{"go test -run 'a|b' -count=1 ./...", "go test -race -timeout 5m ./...", "go test -args -exec x", "go test ./... --args -toolexec x", "go build -o /tmp/x ./cmd/x", "go build -ldflags='-s -w -X main.v=1'", "go run ./cmd/x", "go run . a b", "go test -C sub ./...", "go vet ./a/*"},
		denied: []string{
			"go test -exec x", "go test -exec=x", "go test --exec x", "go build -toolexec x", "go build --toolexec=x", "go vet -vettool=x", "go build -overlay x", "go build -modfile=x", "go build -ldflags='-extld=x'", "go build -ldflags '-linkmode external -extldflags x'", "go test -C /tmp", "go test -C=.. ./...", "go run x@latest", "go run example.com/x@v1", "go test example.com/x@v1", "go test $x", "go run *.go", "go build -compiler gccgo", "go get x", "go",
		},
	},
	{
		about: "cargo", list: "cargo build,cargo test,cargo run",
		allowed: []string{"cargo build --release", "cargo test name -- --nocapture --config x", "cargo run --manifest-path sub/Cargo.toml"},
		denied:  []string{"cargo +x build", "cargo build --config 'build.rustc-wrapper=\"/tmp/x\"'", "cargo build --config=x", "cargo test -Zx", "cargo run -C /tmp", "cargo build --manifest-path=/tmp/Cargo.toml", "cargo test $x", "cargo install x"},
	},
	{
		about: "npm and pytest", list: builders + ",pytest",
		allowed: []string{"npm run build", "npm run build -- --prefix x", "npm run build --silent", "npm run build -w a", "python -m pytest -q -k 'a and b'", "python -m pytest -p no:cacheprovider", "python -m pytest -pno:x", "python -m pytest -c sub/pytest.ini", "python -m pytest --rootdir=sub", "pytest -xvs tests/*.py", "pytest -W error::DeprecationWarning"},
		denied: []string{
			"npm run build --script-shell=x", "npm run build --script-shell x", "npm run build --script-s=x", "npm run build -script-shell x", "npm run build --node-options=x", "npm run build --prefix /tmp", "npm run build --pref=x", "npm run build -C /tmp", "npm run build --userconfig=x", "npm run build --globalconfig=x", "npm run build $x",
			"python -m pytest -p x", "python -m pytest -px", "python -m pytest -xp x", "python -m pytest -c /tmp/x", "python -m pytest -c/tmp/x", "python -m pytest --rootdir=/tmp", "python -m pytest --rootdir /tmp", "python -m pytest --rootdir=..", "python -m pytest -o addopts=-px", "pytest -p x", "pytest -xpx", "pytest -W error::a.b", "pytest *",
		},
	},
}

// escapes are lines that would run an unlisted program if the grammars of options
// were not closed.
var escapes = []struct {
	list string
	cmds []string
}{
	{"git", []string{
		"git grep -e -- '-Otouch X;'", "git --no-pager grep -GOid x", "git fetch -o -- --upload-pack='touch X;' .", "git clone -u 'touch X;' . y", "git rebase -x 'touch X'", "git rebase --exec='touch X' HEAD~1",
		"git difftool -x 'touch X'", "git difftool --extcmd=touch", "git bisect run touch X", "git submodule foreach touch X", "git submodule --quiet foreach touch X", "git merge -s touch x", "git pull --strategy=touch",
		"git -c alias.x='!touch X' x", "git -c core.pager='touch X' log", "git -c core.fsmonitor='touch X' status", "git --config-env=alias.x=Y x", "git --exec-path=. x", "git x", "git clone -c core.sshCommand='touch X' a b",
		"git clone --template=. . y", "git init --template=.", "git config core.pager touch", "git config --global alias.x '!touch X'", "git fetch 'ext::touch X'", "git clone touch::x", "git remote add x 'ext::touch X'",
		"git submodule add 'ext::touch X'", "git log -S -Otouch", "git log --grep -Otouch", "git log --oneline -- -Otouch", "git grep --op=touch x", "git grep --no-index -Otouch x", "git -C /tmp/evil status", "git sub*", "git -C s* x", "git help -w log",
		"git mergetool -t touch", "git send-email --smtp-server=./touch x", "git archive --remote=. --exec=touch HEAD", "git ls-remote --upload-pack='touch X;' .", "git push --receive-pack='touch X;' . x", "git blame --textconv x", "git cat-file --textconv HEAD:x", "git filter-branch --tree-filter 'touch X'",
		"git commit -S -m x", "git tag -s v1", "git commit -m -Ox", "git remote -v update x", "git config -e", "git var GIT_EDITOR", "git instaweb", "git daemon", "git web--browse x", "git $x", "git log \"$x\"", "git commit -m $x", "git commit \"$x\" -m y", "git -c \"$x\" log",
	}},
	{"rg", []string{"rg -e -- --pre=p.sh f", "rg -f -- --pre=p.sh f", "rg -A -- --pre=p.sh f", "rg --regexp -- --pre=p.sh f", "rg --regexp --pre f", "rg -ez --pre x f", "rg --pre-glob=* --pre=x f", "rg --iglob -- -z f", "rg -uuz f"}},
	{"go", []string{
		"go vet -tags -args -vettool=x .", "go test -run -args -exec x .", "go build -o -args -toolexec=x .", "go test -count 1 -run -x -exec=x", "go -C /tmp vet", "go env -w GOFLAGS=-toolexec=x", "go env -u GOFLAGS", "go tool x", "go tool compile x", "go build -asmflags=x",
		"go build -ldflags \"-X a.b=c -extld=touch\"", "go build -ldflags='\"-extld\" touch'", "go build -ldflags=all=-extld=touch", "go build -gcflags=-importcfg=x", "go list -toolexec=touch -export .", "go get -toolexec=touch x", "go generate -toolexec x", "go fmt -x=y -mod=/x", "go install x@latest", "go run x@latest", "go bug", "go telemetry on", "go mod edit -json -go=1.2", "go mod edit -replace=a=/x", "go doc -http x", "go test -test.v -exec x", "go test -- -exec x",
	}},
	{"nice,timeout,env,xargs,ls", []string{"nice 5 ls", "nice -n 5 5 ls", "nice --5 ls", "timeout -s -k ls", "timeout -k -- 5 ls", "xargs -n -- ls", "xargs -I{} {}", "xargs -E x ls", "env -C / ls", "env - ls"}},
	{"find,ls", []string{
		"find . -exec ls ';'* -delete ';'", "find . -name -exec -exec touch X ';'", "find . -name -delete", "find . -newer -exec ls ';' -delete", "find . -printf -delete", "find -D exec -delete", "find . -fprintf x y", "find -files0-from x", "find . -execdir touch {} +", "find . -unknown touch",
	}},
	{"tar,sort,sed,awk", []string{
		"tar -f -- --to-command=touch -x", "tar -C -- -I touch -cf x", "tar -W use-compress-program=touch -cf x y", "tar -s x -cf x y", "sort -k -- --compress-program=touch x", "sort -T -- --compress-program=touch x", "sort -t - -o x y --compress-program=touch", "sort --key -- --compress-program=x", "sed -e -- -i x", "sed -l -- -i x", "awk -F -- -f x", "awk -v -- -f x", "sort -u -- -o x",
	}},
}

func TestNoOptionOfListedProgramRunsAnother(t *testing.T) {
	for _, e := range escapes {
		t.Run(e.list, func(t *testing.T) {
			for _, cmd := range e.cmds {
				err := listOf(e.list).Check(cmd, nil)
				if err == nil {
					t.Errorf("%q is allowed by %q", cmd, e.list)
					continue
				}
				// Approval replaces an entry of the list only.
				if unlisted := strings.Contains(err.Error(), "not in whitelist"); !unlisted && listOf("ls").mayRun(cmd, nil) {
					t.Errorf("%q is allowed with approval", cmd)
				}
			}
		})
	}
}

// An entry of Deny matches every spelling that the program accepts.
func TestDenyMatchesOtherSpellings(t *testing.T) {
	for _, c := range []struct {
		entry           string
		denied, allowed []string
	}{
		{"npm publish", []string{"npm pub", "npm publis", "npm -w a pub", "npm publish x", "npx npm publish", "npm exec npm publish", "npm x -- npm pub", "npm --no-color publish", "/usr/bin/npm publish", "npm -- publish"}, []string{"npm run publish", "npm pack", "npm test", "npm run build"}},
		{"npm install", []string{"npm i", "npm add x", "npm isntall", "npm insta"}, []string{"npm init", "npm it", "npm ci", "npm install-test"}},
		{"npm run deploy", []string{"npm run-script deploy", "npm rum deploy", "npm runScript deploy", "npm run --silent deploy", "npm ru deploy"}, []string{"npm run build", "npm test deploy"}},
		{"cargo publish", []string{"cargo +nightly publish", "cargo -v publish", "cargo +nightly --color always publish"}, []string{"cargo build", "cargo test publish", "cargo run -- publish"}},
		{"cargo run", []string{"cargo r", "cargo +stable r --release"}, []string{"cargo rm x", "cargo test run"}},
		{"make deploy", []string{"make test deploy", "make A=b deploy", "make -C x test deploy", "make -j4 a b deploy", "./make test deploy"}, []string{"make test", "make deployed"}},
		{"gh pr merge", []string{"gh pr -R a/b merge", "gh -R a/b pr merge", "gh --repo=a/b pr -R a/b merge 5", "gh pr $x"}, []string{"gh pr view merge", "gh pr list", "gh issue list"}},
		{"docker push", []string{"docker image push x", "docker --context a image push x", "docker --context x push y", "sudo docker image push x"}, []string{"docker pull x", "docker image pull push", "docker build ."}},
		{"docker container rm", []string{"docker rm x", "docker container rm x", "docker container remove x"}, []string{"docker image rm x", "docker run x rm"}},
		{"rm -rf", []string{"rm -fr x", "rm -r -f x", "rm -rfv x", "rm -f x -R", "rm --recursive --force x", "rm --rec -f x", "rm x -rf", "/bin/rm -fr x", "sudo rm -r -f x", "rm x $y", "ls | xargs rm"}, []string{"rm x", "rm -f x", "rm -r x", "rm -- -r -f", "rm -f ./$x"}},
		{"git push --force", []string{"git push -f", "git push origin main --force", "git --no-pager push -f x", "git push -uf origin x"}, []string{"git push", "git push -u origin force", "git push --force-with-lease"}},
		{"go test -v", []string{"go test ./... -v", "go test --v ./...", "go -C x test -v"}, []string{"go test ./...", "go test -vet=off ./..."}},
		{"pip install", []string{"python3 -m pip install x", "python -I -m pip install x", "python3 -mpip install x", "python3.11 -Im pip --quiet install x", "pip3 install x", "sudo pip3 --quiet install x", "uv pip install x"}, []string{"pip list", "python3 -m pytest install", "python3 x.py -m pip install", "pip3 show install"}},
		{"git push", []string{"/usr/bin/git push", "./git --no-pager push", "sudo git push", "sudo -u a git --no-pager push", "watch git push", "watch -n 5 git push", "ionice -c 3 git push", "flock x git push", "flock -w 5 x timeout 5 git push", "busybox sh git push", "sudo $x", "sudo -u $a $b"}, []string{"sudo ls", "git log", "/usr/bin/git log", "sudo ls $x"}},
		{"kubectl delete", []string{"kubectl -n x delete pod", "kubectl --namespace=x delete pod", "echo x | xargs kubectl", "ls | xargs -I{} kubectl {} pod"}, []string{"kubectl get pod delete", "kubectl --namespace=x get pod"}},
		{"rm -fr", []string{
			"fd -x rm -rf", "fd x -X rm -r -f", "fdfind --exec rm -rf", "bundle exec rm -rf x", "bundle e rm -rf x", "docker exec c rm -rf x", "docker exec -it -u 0 c rm -rf x", "docker container exec c rm -rf x", "docker run alpine rm -rf x",
			"docker compose exec c rm -rf x", "docker compose -f x run --rm c rm -rf x", "docker-compose run c rm -rf x", "podman exec c rm -rf x", "nerdctl exec c rm -rf x", "kubectl exec p -- rm -rf x", "kubectl -n x exec -it p -- rm -rf x", "kubectl $x p -- rm -rf x",
			"pkexec rm -rf x", "pkexec --user u rm -rf x", "gosu u rm -rf x", "su-exec u rm -rf x", "tini -- rm -rf x", "/usr/bin/tini -s -- /bin/rm -rf x", "dumb-init rm -rf x", "eatmydata rm -rf x", "linux64 rm -rf x", "linux32 rm -rf x", "i386 rm -rf x", "x86_64 rm -rf x", "choom -n 1 -- rm -rf x",
			"conda run rm -rf x", "conda run -n e rm -rf x", "sudo docker exec c rm -rf x", "pkexec conda run rm -rf x", "run0 rm -rf x", "tmux new rm -rf x", "nix run x -- rm -rf x", "rustup run stable rm -rf x", "setlock f rm -rf x", "bwrap --bind / / rm -rf x",
		}, []string{"docker rm -rf x", "docker ps", "docker exec c ls", "bundle install", "bundle config rm -rf", "kubectl get rm -f -r", "conda remove rm -rf", "fd rm", "rustup update", "nix build x", "tini -- ls", "docker compose rm -rf", "docker build -t $x .", "kubectl get pods $x", "npm run $x"}},
		{"docker run --privileged", []string{"docker run -it --privileged x", "docker container run --privileged x", "docker run --privileged=true x"}, []string{"docker run x", "docker ps"}},
	} {
		t.Run(c.entry, func(t *testing.T) {
			list := Commands{Deny: []string{c.entry}}
			for _, cmd := range c.denied {
				if list.Check(cmd, nil) == nil {
					t.Errorf("%q is allowed though %q is denied", cmd, c.entry)
				}
			}
			for _, cmd := range c.allowed {
				if err := list.Check(cmd, nil); err != nil && strings.Contains(err.Error(), "command is denied") {
					t.Errorf("%q: %v", cmd, err)
				}
			}
		})
	}
}

func TestDenyIsFastOnLongCommands(t *testing.T) {
	long := Commands{Deny: []string{"git push", "kubectl delete x y z", "rm -rf"}}
	for _, unit := range []string{"sudo ", "git ", "$x ", "kubectl $x ", "rm -r "} {
		check := func(size int) time.Duration {
			least := time.Hour
			for range 3 {
				began := time.Now()
				long.Check("sudo kubectl "+strings.Repeat(unit, size/len(unit)), nil)
				least = min(least, time.Since(began))
			}
			return least
		}
		// Four times the length takes 16 times as long if the work is quadratic.
		if short, whole := check(1500), check(6000); whole > 40*short {
			t.Errorf("many of %q take %v, a quarter of them %v", unit, whole, short)
		}
	}
}

func TestDenyMatchesSubcommandAfterOptions(t *testing.T) {
	lists := Commands{Deny: []string{"git push", "go get", "git remote add", "npm publish", "kubectl delete"}}
	for _, cmd := range []string{
		"git push", "git --no-pager push", "git -C sub push", "git -c user.name=x push", "git -c user.name=push push origin", "timeout 5 git --no-pager push", "go -C sub get x", "git --no-pager remote add x y", "git --no-pager 'push'",
		"npm --silent publish", "npm -w a publish", "kubectl -n x delete pod y", "kubectl --context=a -n x delete pod", "kubectl $x delete", "kubectl -n $x", "git --no-pager $x",
	} {
		if lists.Check(cmd, nil) == nil {
			t.Errorf("%q is allowed", cmd)
		}
	}
	for _, cmd := range []string{"git log push", "git --no-pager log", "npm run publish", "kubectl get pod delete", "kubectl -n x get pod", "go -C sub test"} {
		if err := lists.Check(cmd, nil); err != nil {
			t.Errorf("%q is denied: %v", cmd, err)
		}
	}
}

// git would start gpg to verify a signature, which is not listed.
func TestNoFormatOfGitVerifiesSignatures(t *testing.T) {
	list := listOf("git")
	for letter := range strings.FieldsSeq("GG G? GS GK GF GP GT +GG -GG +-GG <(10)%GG <|(10)%GG >>(10)%GG w(1,2,3)%GG C(auto)%GG n%GP h%x25%GG %GG %%GG (trailers:separator=%GG) G") {
		for _, cmd := range []string{
			"git log --pretty='%" + letter + "'", "git log --format='%h %" + letter + "'", "git show --pretty='format:%" + letter + "'", "git rev-list --pretty='tformat:x%" + letter + "' HEAD", "git shortlog --format='%" + letter + "'",
			"git shortlog --group='%" + letter + "'", "git shortlog --group='format:%" + letter + "'", "git stash list --format='%" + letter + "'", "git reflog --pretty='%" + letter + "'", "git whatchanged --format='%" + letter + "'",
		} {
			if list.Check(cmd, nil) == nil {
				t.Errorf("%q is allowed", cmd)
			}
		}
	}
	for _, cmd := range []string{
		"git log --pretty='% GG'", "git log --pretty=own", "git log --pretty=on", "git log --pretty=%", "git tag --format='%(signature)'", "git branch --format='%(signature:grade)'", "git for-each-ref --format='%(*signature)'", "git for-each-ref --format='%%(signature)'",
		"git for-each-ref --format='%(if)%(signature:key)%(then)x%(end)'", "git for-each-ref --format='%(refname) %(signature'", "git for-each-ref --sort=signature", "git for-each-ref --sort=-signature:key", "git branch --sort=signature", "git tag --sort='*signature'",
	} {
		if list.Check(cmd, nil) == nil {
			t.Errorf("%q is allowed", cmd)
		}
	}
	for _, cmd := range []string{
		"git log --format='%h %an %ad %s' --date=short", "git log --pretty=oneline", "git log --pretty=", "git show --format= HEAD", "git log --pretty='format:%C(yellow)%h%C(reset) %<(20,trunc)%an %s%d'", "git log --format='%H%x09%aI%n%B%n--'", "git log --format='%Cred%h%Creset 100%% %cr'",
		"git log --format='%(trailers:key=Fixes,separator=%x2C)'", "git log --format='%w(72,1,2)%b'", "git log --pretty=tformat:x", "git shortlog -s --group=committer", "git shortlog --group='trailer:co-authored-by'", "git log --date=format:%G",
		"git for-each-ref --sort=-committerdate --format='%(refname:short) %(objectname:short) %(committerdate:relative)%00'", "git branch --format='%(if)%(HEAD)%(then)* %(end)%(refname:lstrip=2) %(upstream:track)'", "git tag --sort=-v:refname", "git tag --sort=version:refname",
		"git ls-tree --format='%(objectmode) %(path)' HEAD", "git archive --format=tar HEAD", "git tag --format='%(contents:signature)'",
	} {
		if err := list.Check(cmd, nil); err != nil {
			t.Errorf("%q is denied: %v", cmd, err)
		}
	}
}

func listOf(entries string) Commands { return Commands{Allow: strings.Split(entries, ",")} }

func TestCheckAllowsAndDenies(t *testing.T) {
	for _, r := range rule {
		t.Run(r.about, func(t *testing.T) {
			list := listOf(r.list)
			for _, cmd := range r.allowed {
				if err := list.Check(cmd, nil); err != nil {
					t.Errorf("%q is denied: %v", cmd, err)
				}
			}
			for _, cmd := range r.denied {
				if err := list.Check(cmd, nil); err == nil {
					t.Errorf("%q is allowed", cmd)
				}
			}
		})
	}
}

func TestDenialNamesReasonAndAlternative(t *testing.T) {
	list := Commands{Allow: []string{"go test", "go build", "npm run build", "ls"}, Deny: []string{"ls -R"}}
	for cmd, want := range map[string]Denial{
		"rm -rf /":         {"command not in whitelist: rm", "Allowed: go test, go build, npm run build, ls."},
		"ls && go get x":   {"command not in whitelist: go get", "Allowed of go: go test, go build."},
		"npm run deploy x": {"command not in whitelist: npm run deploy", "Allowed of npm: npm run build."},
		"npm":              {"command not in whitelist: npm", "Allowed of npm: npm run build."},
		"go $x":            {"command not in whitelist: go $x", "Allowed of go: go test, go build."},
		"ls -R x":          {"command is denied: ls -R", deniedByOwner},
		"ls '-R'":          {"command is denied: ls -R", deniedByOwner},
		"ls $x":            {"command is denied: ls -R", "Only the shell that runs the command knows what $x becomes, and it could make the command a denied one. Write its value instead, or put -- before it."},
		"ls -R $x":         {"command is denied: ls -R", deniedByOwner},
		"go test *":        {"* in the arguments of go may expand to a file name that looks like an option", "Quote the pattern: '*', or write ./ before it."},
	} {
		d, ok := errors.AsType[*Denial](list.Check(cmd, nil))
		if !ok || *d != want {
			t.Errorf("%q: got %+v, want %+v", cmd, d, want)
		}
	}
}

func TestCheckRefusesHarmfulEnvironment(t *testing.T) {
	list := Commands{Allow: []string{"ls"}, Release: []string{"GOFLAGS"}}
	for _, c := range []struct {
		name, value string
		allowed     bool
	}{
		{"A", "x y", true}, {"CI", "true", true}, {"GOFLAGS", "-x", true}, {"CGO_ENABLED", "0", true}, {"CGO_ENABLED", "x", false}, {"PATH", "x", false}, {"LD_PRELOAD", "x", false}, {"BASH_FUNC_ls%%", "x", false},
		{"Npm_Config_x", "x", false}, {"npm_config_", "x", false}, {"", "x", false}, {"a b", "x", false}, {"A=B", "x", false}, {"ENV", "x", false}, {"ENVIRONMENT", "x", true}, {"GIT", "x", false}, {"GIT_X", "x", false},
		{"TZ", "Europe/Berlin", true}, {"TZ", "/tmp/x", false}, {"TMPDIR", "/tmp/x", true}, {"TMPDIR", "/tmp/../x", false}, {"PAGER", "cat", true}, {"PAGER", "touch X", false}, {"GOWORK", "off", true}, {"GOWORK", "x", false},
		{"CFLAGS", "-O2 -g -Wall -DA=1", true}, {"CFLAGS", "-wrapper touch", false}, {"CFLAGS", "-Wl,-plugin,x", false}, {"CFLAGS", "-fplugin=x", false}, {"GITHUB_TOKEN", "ghp_x", true}, {"GIT_X_TOKEN", "x", false}, {"my_name", "x", false},
		{"A", "$(shell touch X)", false}, {"A", "${eval SHELL:=./x}", false}, {"A", "$(b)", true}, {"A", "$5", true},
		{"LC_ALL", "C.UTF-8", true}, {"LC_ALL", "en_US.UTF-8", true}, {"LC_ALL", "POSIX", true}, {"LANGUAGE", "de:en", true}, {"LANGUAGE", "../x", false}, {"LC_ALL", "zh_CN.GBK", false}, {"LC_ALL", "ja_JP.SJIS", false}, {"LC_CTYPE", "zh_TW.BIG5", false}, {"LANG", "zh_CN", false}, {"LC_X", "C", false},
	} {
		if err := list.Check("ls", map[string]string{c.name: c.value}); (err == nil) != c.allowed {
			t.Errorf("%q=%q: %v", c.name, c.value, err)
		}
	}
}

// Each of these variables chooses, in some program, which code runs.
func TestNoVariableChoosesCode(t *testing.T) {
	list := Commands{Allow: []string{"ls", "env", "make", "echo"}}
	for name := range strings.FieldsSeq("JAVA_HOME GOPACKAGESDRIVER KUBECONFIG AWS_CONFIG_FILE DOTNET_STARTUP_HOOKS LUA_INIT BUNDLE_GEMFILE RSYNC_RSH UV_PYTHON PATH IFS ENV BASH_ENV SHELLOPTS PS4 PROMPT_COMMAND CDPATH SHELL HOME " +
		"RANDOM SECONDS OPTIND LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES GCONV_PATH LOCPATH TERMINFO OPENSSL_CONF XDG_CONFIG_HOME DOCKER_HOST GOFLAGS GOROOT GOENV GOPATH GOMODCACHE CC CXX PKG_CONFIG NODE_OPTIONS NODE_PATH PYTHONPATH PYTHONHOME PYTHONSTARTUP " +
		"PYTEST_ADDOPTS PERL5OPT PERL5LIB RUBYOPT RUBYLIB CLASSPATH JAVA_TOOL_OPTIONS MAVEN_OPTS GRADLE_OPTS CARGO_HOME RUSTC_WRAPPER RUSTFLAGS MAKEFLAGS MAKEFILES GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_CONFIG_COUNT GIT_DIR LESSOPEN BROWSER SSH_ASKPASS " +
		"WARMBOX_X warmbox_x TAR_OPTIONS TAPE RIPGREP_CONFIG_PATH AWKPATH npm_config_x NPM_CONFIG_X LUA_INIT_5_4 GEM_HOME GEM_PATH PHPRC PHP_INI_SCAN_DIR ERL_FLAGS ELIXIR_ERL_OPTIONS R_PROFILE JULIA_LOAD_PATH DENO_DIR BUN_INSTALL PIP_INDEX_URL PIP_CONFIG_FILE " +
		"UV_INDEX_URL POETRY_HOME VIRTUAL_ENV CONDA_EXE CMAKE_TOOLCHAIN_FILE NINJA_STATUS CTEST_X CCACHE_PREFIX DISTCC_HOSTS SCCACHE_X LIBRARY_PATH CPATH AWS_PROFILE AWS_SHARED_CREDENTIALS_FILE CLOUDSDK_CONFIG HELM_PLUGINS TF_CLI_CONFIG_FILE ANSIBLE_CONFIG " +
		"VAGRANT_HOME SSH_AUTH_SOCK GNUPGHOME EMACSLOADPATH VIMINIT EXINIT MYVIMRC INPUTRC NANORC SCREENRC TMUX MANOPT MANPATH GROFF_COMMAND_PREFIX INFOPATH ac_cv_prog_CC CONFIG_SITE http_proxy https_proxy ALL_PROXY SSL_CERT_FILE NODE_EXTRA_CA_CERTS histchars auto_resume BASHOPTS") {
		lines := []string{name + "=x ls", name + "=x", "env " + name + "=x ls", "for " + name + " in x; do ls; done", "make " + name + "=x"}
		if slices.Contains(strings.Fields("ac_cv_prog_CC"), name) {
			lines = lines[:1] // allowed for the script itself, but not in the environment of a program
		}
		for _, cmd := range lines {
			if list.Check(cmd, nil) == nil {
				t.Errorf("%q is allowed", cmd)
			}
		}
		if list.CheckEnv(map[string]string{name: "x"}) == nil || list.mayRun("rm", map[string]string{name: "x"}) {
			t.Errorf("the environment of a call may have %s", name)
		}
	}
}

func TestCheckRefusesHarmfulValues(t *testing.T) {
	list := Commands{Allow: []string{"ls", "env", "make", "echo", "timeout"}}
	for cmd, want := range map[string]bool{
		"LC_ALL=zh_CN.GBK; echo \"\u4f60\\$(touch X)\"": false, "LC_ALL=zh_CN.GBK ls": false, "LC_ALL=$x ls": false, "LC_ALL=C ls": true, "for LC_ALL in C; do ls; done": false, "env LC_CTYPE=ja_JP.SJIS ls": false, "LANG=C.UTF-8": true,
		"f=a.go; ls $f": true, "FILES=$(ls); echo \"$FILES\"": true, "my_file=x; ls $my_file": true, "my_file=x ls": false, "FILES=x ls": false, "b='a b' ls": true, "TMPDIR=~ ls": false, "TMPDIR=/tmp/* ls": false,
		"A='$(shell touch X)' make": false, "env A='$(shell touch X)' make": false, "b=$x make": false, "b=1 make": true, "CFLAGS='-O2 -g' make": true, "A='x;y'; timeout 5 make": false, "for i in 1 2; do make; b='$(shell x)' ls; done": false, "f='a b'; ls $f; make": true,
		"make CC=touch": false, "make CC=gcc-12": true, "make CC=x86_64-linux-musl-gcc": true, "make VERSION=1.2 PREFIX=/usr": true, "make CFLAGS=-O2": true, "make CFLAGS=-wrapper,x": false, "make JAVA.HOME=x": false,
	} {
		if err := list.Check(cmd, nil); (err == nil) != want {
			t.Errorf("%q: %v", cmd, err)
		}
	}
	if list.Check("make", map[string]string{"A": "$(shell touch X)"}) == nil {
		t.Error("the environment of make may have a makefile expression")
	}
}

// A denial says what would be accepted instead.
func TestDenialAdvises(t *testing.T) {
	for cmd, want := range map[string]string{
		"go bug": "Allowed of go: build, run, test", "find . -exec sed p {} +": "in a separate call", "git -C ../x log": "workspace", "git help log": "man", "sed s/a/b/e x": "y///", "rm x": "Allowed: git log, go, ls, find, sed.",
	} {
		list := listOf("git log,git help,go,ls,find,sed,ls")
		if strings.HasPrefix(cmd, "rm") {
			list = listOf("git log,go,ls,find,sed,ls")
		}
		d, ok := errors.AsType[*Denial](list.Check(cmd, nil))
		if !ok || !strings.Contains(d.Accept, want) {
			t.Errorf("%q: got %+v, want %q in the advice", cmd, d, want)
		}
	}
}

func TestAllowAndDenyLists(t *testing.T) {
	for _, c := range []struct {
		list Commands
		cmd  string
		want bool
	}{
		{Commands{}, "anything $((at all))", true},
		{Commands{Deny: []string{"git push"}}, "rm x; git pull", true},
		{Commands{Deny: []string{"git push"}}, "git push", false},
		{Commands{Deny: []string{"rm"}}, "find . -exec rm {} +", false},
		{Commands{Deny: []string{"rm"}}, "eval rm", false},
		{Commands{Allow: []string{"default"}}, "go test && cd x && make || true", true},
		{Commands{Allow: []string{"default", "terraform plan"}}, "terraform plan; ls", true},
		{Commands{Allow: []string{"default"}, Deny: []string{"npm install"}}, "npm install x", false},
		{Commands{Allow: []string{" go  test "}}, "go test", true},
		{Commands{Allow: []string{"./gradlew build"}}, "./gradlew build", true},
		{Commands{Allow: []string{"[", "test"}}, "[ -f x ]", true},
		{listOf("test"), "[ -f x ]", true},
		{listOf("test -f"), "[ -f x ]", false},
		{listOf("true"), ":", true},
		{listOf("ls"), ":", false},
		{listOf("default"), "time go test && mkdir -p x && printf '%s\\n' x | sort | uniq -c | tee y && test -f z && date", true},
		{listOf("git help,go help"), "git help; go help test; go help", true},
		{listOf("git help"), "git help log", false},
		{listOf("go mod edit"), "go mod edit -json", true},
		{listOf("go test"), "go -C sub test ./...", true},
	} {
		if err := c.list.Check(c.cmd, nil); (err == nil) != c.want {
			t.Errorf("%v of %q: %v", c.list, c.cmd, err)
		}
	}
}

func TestValidateRefusesInvalidLists(t *testing.T) {
	good := Commands{Allow: []string{"default", "terraform plan"}, Deny: []string{"go test -v"}, Examples: map[string][]string{
		"terraform plan": {"terraform plan -out /tmp/x"}, "go test": {"go test ./..."}, "go test -v": {"go test -v", "ls; go test '-v' x", "go test x -v"},
	}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []Commands{
		{Allow: []string{""}}, {Allow: []string{"ls", " "}}, {Allow: []string{"eval"}}, {Allow: []string{"command ls"}}, {Deny: []string{"."}}, {Allow: []string{"if"}}, {Allow: []string{"l*"}},
		{Allow: []string{"ls; rm"}}, {Allow: []string{"'ls'"}}, {Allow: []string{"-x"}}, {Allow: []string{"A=b ls"}}, {Allow: []string{"ls $x"}}, {Release: []string{"A B"}}, {Allow: []string{"ls\x00"}},
		{Allow: []string{"ls"}, Examples: map[string][]string{"cat": nil}},
		{Allow: []string{"ls"}, Examples: map[string][]string{"ls": {"ls; rm x"}}},
		{Deny: []string{"ls -l"}, Examples: map[string][]string{"ls -l": {"ls x"}}},
	} {
		if err := c.Validate(); err == nil {
			t.Errorf("%v is valid", c)
		}
	}
}

// FuzzCheck tests that no command and no list makes the check panic, that a longer
// list does not allow less, and that a command which is both allowed and denied is
// denied.
func FuzzCheck(f *testing.F) {
	for _, r := range table(f, "testdata/policy_dev.tsv") {
		f.Add(r.cmd, strings.Join(r.list.Allow, ","))
	}
	for _, r := range rule {
		for _, cmd := range append(r.allowed, r.denied...) {
			f.Add(cmd, r.list)
		}
	}
	f.Fuzz(func(t *testing.T, cmd, entries string) {
		list := listOf(entries)
		if list.Check(cmd, nil) != nil {
			return
		}
		if err := list.Validate(); err != nil {
			t.Fatalf("allowed by an invalid list: %v", err)
		}
		more := Commands{Allow: append(DefaultCommands(), list.Allow...)}
		if err := more.Check(cmd, maps.Clone(map[string]string{"A": "$(rm)"})); err != nil {
			t.Fatalf("%q is allowed by %q and not by more: %v", cmd, list.Allow, err)
		}
		all := Commands{Allow: list.Allow, Deny: expand(list.Allow)}
		if err := all.Check(cmd, nil); err == nil && runsSomething(cmd) {
			t.Fatalf("%q is allowed though all is denied", cmd)
		}
	})
}

// runsSomething reports whether a command runs a program, not only sets variables.
func runsSomething(cmd string) bool {
	return Commands{Allow: []string{"nothing"}}.Check(cmd, nil) != nil
}
