package warmbox

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// wallClock lists where the product has to do with times of the wall clock, and
// why no harm comes of it when somebody sets that clock. Every other time has been
// told by time.Now in this program, and bears a reading of the clock that nobody
// sets, with which Sub, Since, Until, Before and After count.
var wallClock = map[string]string{
	"sandbox/agent/input.go: time.Unix":    "a deadline that is long past",
	"sandbox/agent/output.go: time.Unix":   "a deadline that is long past",
	"sandbox/docker/exit.go: Unix":         "asks an engine for a few seconds of its events, to word a cause",
	"sandbox/docker/rawconn.go: time.Unix": "a deadline that is long past",
	"sandbox/docker/boxlock.go: Format":    "forfeits a lock; no code compares it",
	"sandbox/docker/boxlock.go: time.Unix": "forfeits a lock; no code compares it",
	"sandbox/docker/transport.go: Until":   "a guess at an engine's transport that is forgotten early or late",
	"sandbox/docker/request.go: Format":    "a label for people",
	"sandbox/docker/request.go: Started":   "a label for people",
	"sandbox/docker/request.go: UTC":       "a label for people",
	"sandbox/docker/boxes.go: time.Unix":   "a container's age as the engine reports it, for people",
	"sandbox/docker/writable.go: ModTime":  "only what is gone is forgotten, early or late",
	"sandbox/docker/bootclock.go: Unix":    "for systems without a better clock to share, as it says",
	"sandbox/hostcode/stamp.go: ModTime":   "compared with itself, to see a change",
	"sandbox/hostcode/stamp.go: UnixNano":  "compared with itself, to see a change",
	"sandbox/watch.go: ModTime":            "compared with itself, to see a change",
	"sandbox/auditlines.go: Format":        "for people",
	"sandbox/programs.go: Format":          "for people",
	"sandbox/programs.go: UTC":             "for people",
	"sandbox/auditlines.go: UTC":           "for people",
	"sandbox/rawlog/age.go: Round":         "measures how the clock was set",
	"sandbox/rawlog/index.go: Start":       "for people, and for when output came",
	"sandbox/rawlog/sweep.go: ModTime":     "an ager knows how the clock was set",
	"tools/list.go: Format":                "for people",
	"tools/list.go: UTC":                   "for people",
}

// TestWallClock sees that no deadline and no age comes to depend on the wall
// clock unseen: a time loses its other reading when it is rounded, written down,
// read again, or moved to another zone, and files never had one.
func TestWallClock(t *testing.T) {
	found := map[string]bool{}
	for _, p := range packages(t, "./cmd/...", "./sandbox/...", "./server/...", "./tools/...") {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if name == "sandbox/boxtest" || name == "sandbox/docker/enginetest" {
			continue
		}
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				for _, use := range wallUses(n) {
					found[name+"/"+file+": "+use] = true
				}
				return true
			})
		}
	}
	for use := range found {
		if wallClock[use] == "" {
			t.Errorf("%s takes a time from the wall clock: count with a time.Now of this program, or say in wallClock why a clock that is set does no harm", use)
		}
	}
	for use := range wallClock {
		if !found[use] {
			t.Errorf("%s is not there any more", use)
		}
	}
}

// wallUses names what in a node has to do with the wall clock.
func wallUses(n ast.Node) []string {
	switch n := n.(type) {
	case *ast.CallExpr:
		if use := wallCall(n); use != "" {
			return []string{use}
		}
	case *ast.TypeSpec:
		if s, ok := n.Type.(*ast.StructType); ok && !n.Name.IsExported() {
			return writtenTimes(s)
		}
	}
	return nil
}

func wallCall(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	receiver, name, args := nameOf(sel.X), sel.Sel.Name, call.Args
	switch name {
	case "Unix", "UnixMilli", "UnixMicro", "Parse", "ParseInLocation", "Date":
		if receiver == "time" {
			return "time." + name
		}
	case "Round":
		if zero, ok := args[0].(*ast.BasicLit); ok && zero.Value == "0" {
			return name
		}
		return ""
	case "Format":
		if layout, ok := args[0].(*ast.SelectorExpr); ok && nameOf(layout.X) == "time" {
			return name
		}
		return ""
	}
	switch name {
	case "Unix", "UnixMilli", "UnixMicro", "UnixNano", "ModTime", "UTC", "Local", "AddDate", "AppendFormat":
		return name
	}
	return ""
}

// writtenTimes names the times in a struct of JSON: a private type has exported
// fields for no other reason.
func writtenTimes(s *ast.StructType) (list []string) {
	for _, field := range s.Fields.List {
		sel, ok := field.Type.(*ast.SelectorExpr)
		if !ok || nameOf(sel.X) != "time" || sel.Sel.Name != "Time" {
			continue
		}
		for _, name := range field.Names {
			if name.IsExported() {
				list = append(list, name.Name)
			}
		}
	}
	return list
}

// nameOf returns the name that an expression is, "" if it is more than that.
func nameOf(e ast.Expr) string {
	if name, ok := e.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}
