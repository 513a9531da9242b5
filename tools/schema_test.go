package tools

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// TestToolsFitTheTokenBudget: descriptions and schemas cost tokens in every conversation.
func TestToolsFitTheTokenBudget(t *testing.T) {
	const most = 1050 // tokens, as bytes/4; of 1,200 some are left for a tool to come
	input, output := 0, 0
	for _, tool := range new(Set).Tools() {
		description := tool.Tool.Description
		if len(description) > 2048 {
			t.Errorf("%s: a description of %d characters is cut by hosts", tool.Tool.Name, len(description))
		}
		input += len(tool.Tool.Name) + len(description) + compactSize(t, tool.Tool.RawInputSchema)
		output += compactSize(t, tool.Tool.RawOutputSchema)
	}
	t.Logf("names, descriptions and input schemas: %d tokens; output schemas: %d", input/4, output/4)
	if input/4 >= most || output/4 >= most {
		t.Errorf("%d and %d tokens, want less than %d each", input/4, output/4, most)
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
	for _, tool := range new(Set).Tools() {
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
