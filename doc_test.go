package warmbox

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named are the documents whose names of files and of Go identifiers must exist.
var named = []string{"doc/tour.md", "CONTRIBUTING.md"}

var (
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	filePath = regexp.MustCompile(`^[\w.-]+(?:/[\w.-]+)*/?$`)
	goName   = regexp.MustCompile(`^[a-z]\w*\.[A-Z]\w*(?:\.[A-Z]\w*)?$`)
	mdLink   = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// TestDocumentsNameWhatExists checks the code spans of the tour and of CONTRIBUTING: a
// span such as `sandbox.Box.Exec` must be declared, one such as `sandbox/box.go` must be a
// file or directory.
func TestDocumentsNameWhatExists(t *testing.T) {
	names := declaredNames(t)
	checked := 0
	for _, doc := range named {
		for _, span := range codeSpan.FindAllStringSubmatch(readText(t, doc), -1) {
			switch text := span[1]; {
			case goName.MatchString(text) && names[packageOf(text)]:
				checked++
				if !names[text] {
					t.Errorf("%s names %s, which no package declares", doc, text)
				}
			case filePath.MatchString(text) && isPathOfOurs(text):
				checked++
				if _, err := os.Stat(text); err != nil {
					t.Errorf("%s names %s: %v", doc, text, err)
				}
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d names were checked; the documents have more", checked)
	}
}

// TestDocumentsLinkWhatExists checks the relative links of every document.
func TestDocumentsLinkWhatExists(t *testing.T) {
	docs, err := filepath.Glob("doc/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range append(docs, "README.md", "CHANGELOG.md", "CONTRIBUTING.md") {
		for _, link := range mdLink.FindAllStringSubmatch(readText(t, doc), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), link[1])); err != nil {
				t.Errorf("%s links %s: %v", doc, link[1], err)
			}
		}
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// packageOf returns the package's name with its dot, as declaredNames has it.
func packageOf(name string) string { return name[:strings.IndexByte(name, '.')+1] }

// isPathOfOurs tells a path from another word: it has a directory, or is a Go or Markdown
// file at the root. Paths that only a run creates begin with none of our directories.
func isPathOfOurs(text string) bool {
	first, _, slash := strings.Cut(text, "/")
	if !slash {
		return strings.HasSuffix(text, ".go") || strings.HasSuffix(text, ".md")
	}
	info, err := os.Stat(first)
	return err == nil && info.IsDir() && first != "bin"
}

// declaredNames returns what our packages declare, as package.Name, and the methods and
// fields of types as package.Type.Name. Each package itself is there as "package.".
func declaredNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		names[f.Name.Name+"."] = true
		for _, decl := range f.Decls {
			addNames(names, f.Name.Name, decl)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func addNames(names map[string]bool, pkg string, decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := pkg + "."
		if d.Recv != nil {
			name += receiver(d.Recv.List[0].Type) + "."
		}
		names[name+d.Name.Name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names[pkg+"."+n.Name] = true
				}
			case *ast.TypeSpec:
				names[pkg+"."+s.Name.Name] = true
				for _, member := range members(s.Type) {
					names[pkg+"."+s.Name.Name+"."+member] = true
				}
			}
		}
	}
}

func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// members lists the fields of a struct and the methods of an interface.
func members(x ast.Expr) (list []string) {
	var fields *ast.FieldList
	switch x := x.(type) {
	case *ast.StructType:
		fields = x.Fields
	case *ast.InterfaceType:
		fields = x.Methods
	default:
		return nil
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			list = append(list, n.Name)
		}
	}
	return list
}
