package warmbox

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmbox/warmbox/tools"
)

// The rules of this repository, as far as a program can hold them.

const module = "github.com/warmbox/warmbox"

type pkg struct {
	ImportPath  string
	Dir         string
	GoFiles     []string
	Imports     []string
	TestImports []string
	Deps        []string
}

func packages(t *testing.T, args ...string) (list []pkg) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,Imports,TestImports,Deps"}, args...)...)
	cmd.Env = append(os.Environ(), "GOOS=linux")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// mayImport says which of our packages each of them may use: the direction is
// cmd → server → tools → sandbox → the rest, and backends → sandbox.
var mayImport = map[string][]string{
	"":                      {},
	"cmd/warmbox":           {"", "bench", "server", "tools", "sandbox", "sandbox/docker", "sandbox/launch", "sandbox/rawlog", "sandbox/policy", "sandbox/excerpt", "sandbox/agentbin", "sandbox/summary", "sandbox/summary/model", "sandbox/redact", "sandbox/hostpath", "spell"},
	"cmd/warmbox/soak":      {},
	"cmd/warmbox-agent":     {"sandbox/agent"},
	"server":                {"sandbox", "tools"},
	"tools":                 {"sandbox", "sandbox/excerpt", "sandbox/summary"},
	"sandbox":               {"sandbox/wire", "sandbox/policy", "sandbox/rawlog", "sandbox/maskedlog", "sandbox/excerpt", "sandbox/summary", "sandbox/redact", "sandbox/hostpath", "sandbox/hostcode"},
	"sandbox/agent":         {"sandbox/wire"},
	"sandbox/docker":        {"sandbox", "sandbox/agentbin", "sandbox/hostpath", "sandbox/hostcode"},
	"sandbox/launch":        {"sandbox", "sandbox/agentbin", "sandbox/hostpath"},
	"sandbox/agentbin":      {""},
	"sandbox/wire":          {},
	"sandbox/hostpath":      {},
	"sandbox/policy":        {},
	"sandbox/rawlog":        {},
	"sandbox/maskedlog":     {"sandbox/rawlog", "sandbox/redact"},
	"sandbox/excerpt":       {},
	"sandbox/hostcode":      {},
	"sandbox/redact":        {},
	"sandbox/summary":       {},
	"sandbox/summary/model": {"sandbox/summary"},
	"sandbox/boxtest":       {"sandbox", "sandbox/agent", "sandbox/launch", "sandbox/excerpt", "sandbox/rawlog", "sandbox/hostpath", "sandbox/boxtest/weekly"},
	"bench":                 {},
	"spell":                 {},
	"scripts/tryclient":     {},

	"sandbox/docker/enginetest": {},
	"sandbox/boxtest/weekly":    {},
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range packages(t, "./...") {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		allowed, known := mayImport[name]
		if !known {
			t.Errorf("%s: a package that the rules do not know; say what it may import", p.ImportPath)
		}
		for _, i := range p.Imports {
			if rest, ours := strings.CutPrefix(i, module); ours && !slices.Contains(allowed, strings.TrimPrefix(rest, "/")) {
				t.Errorf("%s imports %s", p.ImportPath, i)
			}
		}
	}
}

// TestTextLeavesMasked: tools and server reach output, logs and secrets only through
// methods of Manager and Run, which mask, and never through the fields of Manager.
func TestTextLeavesMasked(t *testing.T) {
	unmasked := []string{"Secrets", "Logs", "Launcher"}
	for _, p := range packages(t, "./tools", "./server") {
		for _, name := range p.GoFiles {
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(unmasked, s.Sel.Name) {
					t.Errorf("%s uses the field %s", files.Position(s.Pos()), s.Sel.Name)
				}
				return true
			})
		}
	}
}

// onlyIn says which packages may know a library.
var onlyIn = map[string][]string{
	"github.com/docker/":              {"sandbox/docker"},
	"github.com/mark3labs/mcp-go":     {"server", "tools"},
	"github.com/BurntSushi/toml":      {"cmd/warmbox"},
	"github.com/lmittmann/tint":       {"cmd/warmbox"},
	"github.com/modelcontextprotocol": {"scripts/tryclient"},
	"mvdan.cc/sh":                     {"sandbox/policy"},
}

func TestLibrariesStayInTheirPlace(t *testing.T) {
	for _, p := range packages(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, i := range p.Imports {
			for library, places := range onlyIn {
				// The bench measures the engine's own ways, so it speaks with it, and is
				// a client of ours.
				if strings.HasPrefix(i, library) && !slices.Contains(places, name) && name != "bench" {
					t.Errorf("%s imports %s, which belongs to %v", p.ImportPath, i, places)
				}
			}
		}
	}
}

// TestAgentStaysSmall sees that the agent needs the standard library, x/sys and
// our wire, and no package net.
func TestAgentStaysSmall(t *testing.T) {
	for _, p := range packages(t, "./cmd/warmbox-agent") {
		for _, d := range p.Deps {
			first, _, _ := strings.Cut(d, "/")
			ours := d == module+"/sandbox/agent" || d == module+"/sandbox/wire"
			if d == "net" || strings.Contains(first, ".") && !ours && !strings.HasPrefix(d, "golang.org/x/sys/") {
				t.Errorf("the agent depends on %s", d)
			}
		}
	}
}

func TestOnePackageComment(t *testing.T) {
	for _, p := range packages(t, "./...") {
		var with []string
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil {
				with = append(with, name)
			}
		}
		if len(with) != 1 {
			t.Errorf("%s has package comments in %v, want one", p.ImportPath, with)
		}
	}
}

// TestDependenciesAreExplained sees that each direct requirement has a row with
// what it saves, and that there is no row of one that is gone.
func TestDependenciesAreExplained(t *testing.T) {
	text, err := os.ReadFile("doc/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| [^|]+ \\| [0-9.]+ \\|$").FindAllStringSubmatch(string(text), -1) {
		rows = append(rows, m[1])
	}
	out, err := exec.Command("go", "mod", "edit", "-json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	var direct []string
	for _, r := range mod.Require {
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
	}
	slices.Sort(rows)
	slices.Sort(direct)
	if diff := cmp.Diff(direct, rows); diff != "" {
		t.Errorf("doc/dependencies.md has other rows (+) than go.mod direct requirements (-):\n%s", diff)
	}
}

// TestReadmeCommands sees that what README tells people to run is there.
func TestReadmeCommands(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	scripts := regexp.MustCompile(`scripts/[a-z]+`).FindAllString(string(readme), -1)
	if len(scripts) == 0 {
		t.Error("README names no script")
	}
	for _, s := range scripts {
		if info, err := os.Stat(s); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("README names %s, which cannot be run: %v", s, err)
		}
	}
	out, err := exec.Command("go", "run", "./cmd/warmbox", "help").CombinedOutput()
	if err != nil {
		t.Fatalf("warmbox help: %v\n%s", err, out)
	}
	for _, m := range regexp.MustCompile("`warmbox ([a-z]+)").FindAllStringSubmatch(string(readme), -1) {
		if !strings.Contains(string(out), "\n  "+m[1]) {
			t.Errorf("README names `warmbox %s`, which help does not know", m[1])
		}
	}
}

// TestReadmeTools sees that README has a row for each tool, with its arguments.
func TestReadmeTools(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range new(tools.Set).Tools() {
		row := regexp.MustCompile("(?m)^\\| `" + tool.Tool.Name + "` \\|.*$").FindString(string(readme))
		var schema struct {
			Properties map[string]any
			Required   []string
		}
		if err := json.Unmarshal(tool.Tool.RawInputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		for name := range schema.Properties {
			if !slices.Contains(schema.Required, name) {
				name += "?"
			}
			if !strings.Contains(row, "`"+name+"`") {
				t.Errorf("README's row of %s has no `%s`: %q", tool.Tool.Name, name, row)
			}
		}
	}
}

// TestPromisesNameTheirTests sees that each row of the promises of doc/security.md
// names a test, and that each test that it names is there.
func TestPromisesNameTheirTests(t *testing.T) {
	doc, err := os.ReadFile("doc/security.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	err = filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			declared[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`((?:Test|Fuzz)\\w+)(…)?")
	for _, m := range names.FindAllStringSubmatch(string(doc), -1) {
		prefix := func(name string) bool { return strings.HasPrefix(name, m[1]) }
		if !declared[m[1]] && (m[2] == "" || !slices.ContainsFunc(slices.Collect(maps.Keys(declared)), prefix)) {
			t.Errorf("doc/security.md names %s, which no package has", m[1])
		}
	}
	promises := 0
	for line := range strings.Lines(string(doc)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| against") {
			promises++
			if !names.MatchString(line) {
				t.Errorf("a promise without a test: %s", line)
			}
		}
	}
	if promises < 40 {
		t.Errorf("found %d promises, the table is larger", promises)
	}
}
