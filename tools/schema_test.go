package tools

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmbox/warmbox/sandbox"
)

var update = flag.Bool("update", false, "rewrite the snapshots in testdata")

// TestSchemasMatchTheSnapshot: a changed tool is a changed API, and shows in the diff.
func TestSchemasMatchTheSnapshot(t *testing.T) {
	for _, tool := range new(Set).Tools() {
		raw, err := json.Marshal(tool.Tool)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := json.Indent(&got, raw, "", "  "); err != nil {
			t.Fatal(err)
		}
		got.WriteByte('\n')
		file := filepath.Join("testdata", tool.Tool.Name+".json")
		if *update {
			if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got.String()); d != "" {
			t.Errorf("%s has changed; if that is meant, run this test with -update:\n%s", file, d)
		}
	}
}

// recordingSet returns a Set with every argument that a setting adds.
func recordingSet() *Set {
	return &Set{Manager: &sandbox.Manager{Defaults: sandbox.Spec{AuditPrograms: true}}}
}

// TestToolsFitTheTokenBudget: hosts send name, description and input schema of each tool to the model
// in every conversation, and a few the output schema too.
func TestToolsFitTheTokenBudget(t *testing.T) {
	const most = 4800 // bytes of JSON, which are 1,200 tokens
	type definition struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	var list []definition
	output := 0
	for _, tool := range recordingSet().Tools() { // which has all arguments
		description := tool.Tool.Description
		if len(description) > 2048 {
			t.Errorf("%s: a description of %d characters is cut by hosts", tool.Tool.Name, len(description))
		}
		list = append(list, definition{tool.Tool.Name, description, tool.Tool.RawInputSchema})
		output += compactSize(t, tool.Tool.RawOutputSchema)
	}
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes of definitions, %d of output schemas", len(raw), output)
	if len(raw) >= most || output >= most {
		t.Errorf("%d bytes of definitions and %d of output schemas, want less than %d each", len(raw), output, most)
	}
}

// TestDescriptionOfExecIsEnoughAlone: some hosts show their model no instructions.
func TestDescriptionOfExecIsEnoughAlone(t *testing.T) {
	for _, tool := range new(Set).Tools() {
		for _, part := range map[string][]string{
			"exec": {"One call is enough", "Files stay", "No network unless", "logs reads or searches all of it", "not killed", "exit code"},
			"logs": {"running or over", "with line numbers"},
		}[tool.Tool.Name] {
			if !strings.Contains(tool.Tool.Description, part) {
				t.Errorf("the description of %s lacks %q: %s", tool.Tool.Name, part, tool.Tool.Description)
			}
		}
		want := tool.Tool.Name == "exec" || tool.Tool.Name == "logs"
		if got := tool.Tool.Meta != nil && tool.Tool.Meta.AdditionalFields[alwaysLoad] == true; got != want {
			t.Errorf("%s is always loaded: %v, want %v", tool.Tool.Name, got, want)
		}
	}
}

func compactSize(t *testing.T, raw json.RawMessage) int {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

// TestSchemasMatchParsers: each argument is in the schema and in the parser.
func TestSchemasMatchParsers(t *testing.T) {
	known := map[string][]param{
		"start": new(startArgs).params(), "exec": new(ExecArgs).params(), "stop": new(stopArgs).params(),
		"logs": new(logsArgs).params(), "input": new(inputArgs).params(), "list": new(listArgs).params(),
	}
	for _, tool := range recordingSet().Tools() {
		var schema struct {
			Properties           map[string]any
			AdditionalProperties *bool
		}
		if err := json.Unmarshal(tool.Tool.RawInputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range known[tool.Tool.Name] {
			names = append(names, p.name)
		}
		slices.Sort(names)
		if d := cmp.Diff(slices.Sorted(maps.Keys(schema.Properties)), names); d != "" {
			t.Errorf("%s: %s", tool.Tool.Name, d)
		}
		if schema.AdditionalProperties == nil || *schema.AdditionalProperties {
			t.Errorf("%s: its input schema allows other arguments", tool.Tool.Name)
		}
	}
}

func TestToolOrder(t *testing.T) {
	var names []string
	for _, tool := range new(Set).Tools() {
		names = append(names, tool.Tool.Name)
	}
	if d := cmp.Diff([]string{"start", "exec", "logs", "input", "list", "stop"}, names); d != "" {
		t.Error(d)
	}
}
