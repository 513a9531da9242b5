package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// bytesPerToken is the usual rule of thumb. Logs have more tokens than that,
	// some three bytes to one, but so have both sides of what is compared.
	bytesPerToken = 4

	// shownWhole is the size up to which output is shown completely.
	shownWhole = 8000
)

// BenchmarkTokens measures what real outputs that are not shown completely cost a model
// to read, in tokens, compared with the raw output: medians of all cases of the
// summariser. It uses a server on the process backend: replies do not depend on the
// backend.
func BenchmarkTokens(b *testing.B) {
	program, err := filepath.Abs("../bin/warmbox")
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		b.Skip("no server to measure; run: go build -o bin/warmbox ./cmd/warmbox")
	}
	cases, err := filepath.Glob("../sandbox/summary/testdata/*/*/exit")
	if err != nil || len(cases) == 0 {
		b.Fatal("no cases", err)
	}
	s, err := (&Bench{Program: program, Args: []string{"--backend=process", "--exec-whitelist=*"}}).serve(b.Context(), "stdio")
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	for b.Loop() {
		var raw, reply []float64
		for _, path := range cases {
			r := s.readCase(b, filepath.Dir(path))
			if r.raw*bytesPerToken > shownWhole {
				raw, reply = append(raw, float64(r.raw)), append(reply, float64(r.reply))
			}
		}
		b.ReportMetric(float64(len(raw)), "outputs")
		b.ReportMetric(median(raw), "raw-tokens")
		b.ReportMetric(median(reply), "reply-tokens")
	}
}

// reading is the cost of reading an output, in tokens.
type reading struct{ raw, reply int }

// readCase runs a command with the output and the exit code of a case.
func (s *server) readCase(b *testing.B, dir string) reading {
	code, err := os.ReadFile(filepath.Join(dir, "exit"))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		b.Fatal(err)
	}
	cmd := fmt.Sprintf("cd '%s' && if [ -e output ]; then cat output; else gzip -dc output.gz; fi; exit %s", dir, strings.TrimSpace(string(code)))
	r, err := call(b.Context(), s.session, "exec", map[string]any{"cmd": cmd})
	if err != nil {
		b.Fatal(err)
	}
	a, err := read(r)
	if err != nil || a.Status != "exited" {
		b.Fatalf("%s: %s, %v", dir, a.Status, err)
	}
	info, err := os.Stat(a.LogPath)
	if err != nil {
		b.Fatal(err)
	}
	text := 0
	for _, c := range r.Content {
		if t, ok := c.(mcp.TextContent); ok {
			text += len(t.Text)
		}
	}
	return reading{int(info.Size() / bytesPerToken), text / bytesPerToken}
}
