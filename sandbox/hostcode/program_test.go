package hostcode

import (
	"slices"
	"testing"
)

// A file that a setting names is found in every spelling that a shell accepts.
func TestProgramIsFoundInEverySpelling(t *testing.T) {
	for value, want := range map[string]string{
		`$(git rev-parse --show-toplevel)/tools/tc`: "tools/tc", `"$(git rev-parse --show-toplevel)/tools/tc"`: "tools/tc", `"$(pwd)/t/s 1"`: "t/s 1",
		"$PWD/t/j": "t/j", "${PWD}/t/j": "t/j", "`pwd`/t/r": "t/r", "sh<t/p": "t/p", "cd t && ./e": "t/e", "cd a;cd b;./c": "a/b/c",
		"${GIT_DIR:-.git}/../t/o": "t/o", ". t/q": "t/q", `"t/s 1"`: "t/s 1", `t/s\ 1`: "t/s 1", "'t/s 1' x": "t/s 1", "env X=1 t/h": "t/h",
		"sh -c 'exec t/d \"$@\"' -": "t/d", "!f() { t/g; }; f": "t/g", "python3 -I -B t/i": "t/i", "t/f | cat": "t/f", "bash ./t/n %O": "t/n",
		"node --require=t/l x": "t/l", "echo {t/b,x}": "t/b", "~/x; t/a": "t/a", "%(prefix)/x || t/a": "t/a", "make -C t m": "t/m",
		"sh script": "script", "eval $(t/a)": "t/a", "x >t/out": "t/out", "${X:-t/p}": "t/p", "t/a\tx": "t/a",
		"awk -ft/p63": "t/p63", "sed -nft/p": "t/p", "awk -f./t/p x": "t/p", "perl -w -It/lib": "t/lib", "x -f't/s 1'": "t/s 1", `x "-ft/s 1"`: "t/s 1", "make -Ct -fm": "t/m", "x -n8ft/p": "t/p", "x -f$PWD/t/p": "t/p", "sed --file=t/p64": "t/p64",
	} {
		t.Run(value, func(t *testing.T) {
			ws := newWorkspace(t)
			ws.repo(".")
			ws.write(want, "#!/bin/sh\n")
			ws.git(".", "config", "diff.x.textconv", value)
			places := Scan(ws.dir).Places
			if !slices.ContainsFunc(places, func(p Place) bool { return p.Path == want && p.Kind == Plain }) {
				t.Errorf("%s is not found", want)
			}
			if slices.ContainsFunc(places, func(p Place) bool { return p.Path == "file" }) {
				t.Error("found a file that the setting does not name")
			}
		})
	}
}
