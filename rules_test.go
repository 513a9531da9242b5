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

// The rules of this repository, as far as a program can check them.

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

// mayImport lists, by package, which of our packages it may import. The direction
// is cmd → server → tools → sandbox → the rest, and backends → sandbox. The root
// package is ".".
var mayImport = map[string][]string{
	"cmd/warmbox": {"cmd/warmbox/cli"},
	"cmd/warmbox/cli": {
		".", "server", "tools", "sandbox", "sandbox/docker", "sandbox/launch", "sandbox/rawlog", "sandbox/policy",
		"sandbox/excerpt", "sandbox/agentbin", "sandbox/summary", "sandbox/summary/model", "sandbox/redact",
		"sandbox/hostpath", "sandbox/keeper", "exectag", "filelock", "privatefile", "shellquote", "spell", "userdir",
	},
	"cmd/warmbox-bench": {"bench/command", "cmd/warmbox/cli"},
	"cmd/warmbox-agent": {"sandbox/agent"},

	"exectag": {"sandbox/excerpt"},

	"server": {"sandbox", "tools", "jsonobject"},
	"tools":  {"sandbox", "sandbox/excerpt", "sandbox/summary", "jsonobject", "spell"},
	"sandbox": {
		"sandbox/link", "sandbox/wire", "sandbox/policy", "sandbox/rawlog", "sandbox/maskedlog", "sandbox/excerpt", "sandbox/summary",
		"sandbox/redact", "sandbox/screen", "sandbox/hostpath", "sandbox/hostcode",
	},

	"sandbox/docker": {"sandbox", "sandbox/agentbin", "sandbox/hostpath", "sandbox/hostcode", "filelock", "userdir"},
	"sandbox/launch": {"sandbox", "sandbox/agentbin", "sandbox/hostpath"},
	"sandbox/keeper": {"sandbox", "sandbox/wire", "filelock"},

	"sandbox/agent":    {"sandbox/wire"},
	"sandbox/link":     {"sandbox/wire"},
	"sandbox/agentbin": {".", "filelock", "userdir"},

	"bench/command": {"bench", "cmd/warmbox/cli", "sandbox", "sandbox/docker"},
	"sandbox/boxtest": {
		"sandbox", "sandbox/agent", "sandbox/launch", "sandbox/excerpt", "sandbox/rawlog", "sandbox/hostpath",
		"sandbox/boxtest/isolate", "sandbox/boxtest/weekly",
	},
	"sandbox/maskedlog":     {"sandbox/rawlog", "sandbox/redact"},
	"sandbox/summary/model": {"sandbox/excerpt", "sandbox/summary"},
	"sandbox/policy":        {"sandbox/excerpt"},
	"sandbox/summary":       {"sandbox/excerpt"},
	"sandbox/rawlog":        {"filelock"},
	"privatefile":           {"sandbox/hostpath", "shellquote"},

	// These import none of ours.
	".":                         {},
	"bench":                     {},
	"bench/replay":              {},
	"cmd/warmbox/soak":          {},
	"filelock":                  {},
	"jsonobject":                {},
	"sandbox/boxtest/isolate":   {},
	"sandbox/boxtest/weekly":    {},
	"sandbox/docker/enginetest": {},
	"sandbox/excerpt":           {},
	"sandbox/hostcode":          {},
	"sandbox/hostpath":          {},
	"sandbox/redact":            {},
	"sandbox/screen":            {},
	"sandbox/wire":              {},
	"scripts/tryclient":         {},
	"shellquote":                {},
	"spell":                     {},
	"userdir":                   {},
}

// relative returns a package's path within the module, and whether it is ours.
func relative(importPath string) (name string, ours bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range packages(t, "./...") {
		name, _ := relative(p.ImportPath)
		allowed, known := mayImport[name]
		if !known {
			t.Errorf("%s is not in the table mayImport; add what it may import", name)
		}
		for _, i := range p.Imports {
			if imported, ours := relative(i); ours && !slices.Contains(allowed, imported) {
				t.Errorf("%s must not import %s", name, imported)
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

// onlyIn lists, by the beginning of its path, which packages may import a library.
// Package bench compares warmbox with direct use of the engine, and is an MCP client.
var onlyIn = map[string][]string{
	"github.com/docker/":              {"sandbox/docker", "bench"},
	"github.com/mark3labs/mcp-go":     {"server", "tools", "bench"},
	"github.com/BurntSushi/toml":      {"cmd/warmbox/cli"},
	"github.com/charmbracelet/":       {"sandbox/screen"},
	"github.com/lmittmann/tint":       {"cmd/warmbox/cli"},
	"github.com/modelcontextprotocol": {"scripts/tryclient"},
	"mvdan.cc/sh":                     {"sandbox/policy"},
}

func TestLibrariesStayInTheirPackages(t *testing.T) {
	for _, p := range packages(t, "./...") {
		name, _ := relative(p.ImportPath)
		for _, i := range p.Imports {
			for library, allowed := range onlyIn {
				if strings.HasPrefix(i, library) && !slices.Contains(allowed, name) {
					t.Errorf("%s imports %s; only %v may", name, i, allowed)
				}
			}
		}
	}
}

// What measures warmbox adds nothing to the program that users install.
func TestUsersProgramHasNoBench(t *testing.T) {
	for _, p := range packages(t, "./cmd/warmbox") {
		for _, d := range p.Deps {
			if name, _ := relative(d); name == "bench" || strings.HasPrefix(name, "bench/") {
				t.Errorf("warmbox depends on %s", name)
			}
		}
	}
}

// The agent depends on the standard library without package net, on x/sys and on
// our wire, and on nothing else.
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

// doc/dependencies.md has one row for each direct requirement, with what it saves,
// and no other row.
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

// Scripts and commands that README names exist.
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
			t.Errorf("README names %s, which is not an executable file: %v", s, err)
		}
	}
	out, err := exec.Command("go", "run", "./cmd/warmbox", "help").CombinedOutput()
	if err != nil {
		t.Fatalf("warmbox help: %v\n%s", err, out)
	}
	for _, m := range regexp.MustCompile("`warmbox ([a-z]+)").FindAllStringSubmatch(string(readme), -1) {
		if !strings.Contains(string(out), "\n  "+m[1]) {
			t.Errorf("README names `warmbox %s`, which help does not list", m[1])
		}
	}
}

// README has a row for each tool, with its arguments.
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

// Each promise in doc/security.md names a test, and each test that it names exists.
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
			t.Errorf("doc/security.md names %s, which does not exist", m[1])
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
		t.Errorf("found only %d promises, want at least 40", promises)
	}
}
