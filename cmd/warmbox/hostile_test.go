package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warmbox/warmbox/sandbox/rawlog"
)

// TestHostileOutputKeepsInvariants runs a program that prints output made to break a
// log, an excerpt or a reader. The program then checks its list of invariants, on the
// raw logs and on the text that a model reads.
func TestHostileOutputKeepsInvariants(t *testing.T) {
	needDocker(t)
	h := newHome(t)
	workspace := h.mkdir(t, "work")
	script, err := os.ReadFile("testdata/hostile/gen.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"log", "view"} {
		h.mkdir(t, filepath.Join("work", dir))
	}
	h.write(t, "work/gen.py", string(script))
	p := h.serve(t, "--workspace", workspace)
	list, _ := p.exec(t, map[string]any{"cmd": "python3 gen.py write in >&2 && python3 gen.py list"})
	names := strings.Fields(fmt.Sprint(list["stdout"]))
	if len(names) < 50 {
		t.Fatalf("%v", list)
	}
	for _, name := range names {
		p.hostile(t, h, name)
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

// hostile runs one case. It writes a file for each stream of its log, and one for the
// text of the reply, for the program to check.
func (p *program) hostile(t *testing.T, h home, name string) {
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
		h.write(t, filepath.Join("work", file), string(text))
	}
}

// closedIndex returns the index of a log once it is closed. A reply does not wait for
// that.
func closedIndex(t *testing.T, path string) (index *rawlog.Index) {
	t.Helper()
	soon(t, path+" is closed", func() bool {
		var err error
		if index, err = rawlog.ReadIndex(path); err != nil {
			t.Fatal(err)
		}
		return index.Totals != nil
	})
	return index
}
