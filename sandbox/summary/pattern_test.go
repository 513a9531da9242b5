package summary

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"testing"
)

// Without this test, a pattern that does not compile would fail at its first use.
func TestPatternsCompile(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if ok, _ := filepath.Match("*_test.go", name); ok {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	// Errors of imports do not matter for the values of constants.
	info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	(&types.Config{Error: func(error) {}}).Check("summary", set, files, &info)
	seen := 0
	for _, file := range files {
		for n := range ast.Preorder(file) {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				continue
			}
			if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "re" {
				continue
			}
			seen++
			expr := info.Types[call.Args[0]].Value
			if expr == nil {
				t.Errorf("%s: the pattern is not a constant", set.Position(call.Pos()))
			} else if _, err := regexp.Compile(constant.StringVal(expr)); err != nil {
				t.Errorf("%s: %v", set.Position(call.Pos()), err)
			}
		}
	}
	if seen < 200 {
		t.Errorf("found only %d patterns, expected more than 200", seen)
	}
}
