package hostcode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// parse agrees with git on the settings in a file.
func TestParseReadsAsGitDoes(t *testing.T) {
	ws := newWorkspace(t)
	for _, text := range []string{
		"[core]\n\thooksPath = a b  # c\n", "[core] hooksPath=x\n[Core]\nHOOKSPATH = y", "[core]\nhooksPath = \"a # b\" ; c\n", "[core]\nhooksPath = a\\\nb\n",
		"[core]\r\nhooksPath = a\r\n", "[core]\nhooksPath = \"a\\tb\\\\c\\\"\"d\n", "[core]\nhooksPath\n", "[core]\nhooksPath = \n", "[core]\nhooksPath = \"  x  \"  \n",
		"[alias \"A.b\"]\nx = y\n", "[alias.Old]\nx = y\n", "[alias \"a\\\"]b\"]\nx = y\n", "; c\n# [core]\n[core]\n# x = y\nx = a;b\n", "[core]\nx = a \\\n  b # c \\\nd = e\n",
		"\xef\xbb\xbf[core]\nx = y\n", "[core]x=y\n[a]\n\tb = c d  \n", "[includeIf \"gitdir:~/x/\"]\n path = a\n",
	} {
		file := filepath.Join(ws.dir, "settings")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("git", "config", "--file", file, "--no-includes", "--null", "--list")
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("git does not read %q: %v", text, err)
		}
		var got strings.Builder
		for _, x := range parse(text) {
			key := x.section + "." + x.name
			if x.sub != "" {
				key = x.section + "." + x.sub + "." + x.name
			}
			fmt.Fprintf(&got, "%s\n%s\x00", key, x.value)
		}
		// git lists a name without a value without a line feed.
		if want := strings.ReplaceAll(string(out), "hookspath\x00", "hookspath\n\x00"); got.String() != want {
			t.Errorf("%q: read %q, git reads %q", text, got.String(), want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("[core]\nhooksPath = \"a\\\nb\" # c\n[a \"b\\")
	f.Add("[\\")
	f.Fuzz(func(t *testing.T, text string) {
		for _, x := range parse(text) {
			if len(x.value) > len(text) || x.name == "" {
				t.Errorf("%+v", x)
			}
		}
	})
}
