package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warmbox/warmbox/sandbox/rawlog"
)

// TestHostileOutput has a program in a box print what is meant to break a log,
// an excerpt or a reader, and has its own checker say whether all that it lists
// as invariant held: in the raw log, and in the text that a model reads.
func TestHostileOutput(t *testing.T) {
	workspace := t.TempDir()
	os.Chmod(workspace, 0o777) // the box's user is not ours
	script, err := os.ReadFile("testdata/hostile/gen.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"log", "view"} {
		if err := os.Mkdir(filepath.Join(workspace, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(workspace, "gen.py"), script, 0o644); err != nil {
		t.Fatal(err)
	}
	p := serve(t, "--workspace", workspace)
	list, _ := p.exec(t, map[string]any{"cmd": "python3 gen.py write in >&2 && python3 gen.py list"})
	names := strings.Fields(fmt.Sprint(list["stdout"]))
	if len(names) < 50 {
		t.Fatalf("%v", list)
	}
	for _, name := range names {
		p.hostile(t, name, workspace)
	}
	check, _ := p.exec(t, map[string]any{"cmd": "python3 gen.py check in log view", "maxBytes": 100_000})
	for line := range strings.Lines(fmt.Sprint(check["stdout"])) {
		if strings.HasPrefix(line, "FAIL") {
			t.Error(strings.TrimSpace(line))
		}
	}
	if want := fmt.Sprintf("cases %d, failed 0\n", len(names)); !strings.HasSuffix(fmt.Sprint(check["stdout"]), want) {
		t.Errorf("the checker does not end with %q", want)
	}
}

// hostile runs one case and puts its log, a file for each stream, and the text
// of the reply where the checker looks for them.
func (p *program) hostile(t *testing.T, name, dir string) {
	t.Helper()
	r, err := p.CallTool(t.Context(), &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"cmd": "python3 gen.py run " + name}})
	if err != nil {
		t.Fatal(err)
	}
	fields, ok := r.StructuredContent.(map[string]any)
	if !ok || fields["exitCode"] != 0.0 {
		t.Fatalf("%s: %v", name, r.StructuredContent)
	}
	path := fmt.Sprint(fields["logPath"])
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	index := closedIndex(t, strings.TrimSuffix(path, ".log")+".idx")
	streams := map[rawlog.Stream][]byte{}
	for _, s := range index.Spans {
		streams[s.Stream] = append(streams[s.Stream], raw[s.Off:s.Off+s.Len]...)
	}
	for file, text := range map[string][]byte{
		"log/" + name + ".out":  streams[rawlog.Stdout],
		"log/" + name + ".err":  streams[rawlog.Stderr],
		"view/" + name + ".txt": []byte(r.Content[0].(*mcp.TextContent).Text),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// closedIndex returns the index of a log when it says that no more can come: a
// reply does not wait for that.
func closedIndex(t *testing.T, path string) *rawlog.Index {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		index, err := rawlog.ReadIndex(path)
		if err != nil {
			t.Fatal(err)
		}
		if index.Totals != nil {
			return index
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has no end", path)
		}
	}
}
