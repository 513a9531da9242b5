package bench_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/policy"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/redact"
	"github.com/warmbox/warmbox/server"
	"github.com/warmbox/warmbox/tools"
)

func TestMain(m *testing.M) { boxtest.Main(m) }

// rounds is the number of commands that a count is the mean of, so that occasional
// work, such as creating a log file ahead, has its share in it.
const rounds = 200

// margin is how much a count may exceed the stored one.
const margin = 1.1

// TestCounts compares what one command costs the server with stored counts. Counts do
// not depend on the load of the machine as times do. They show an additional copy, a
// goroutine, or a second write.
func TestCounts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads and writes are counted by Linux")
	}
	got := count(t)
	stored, err := readCounts(countsFile)
	if os.Getenv("UPDATE") != "" {
		if err := writeCounts(countsFile, got); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range stored {
		most := n*margin + 0.5
		if strings.Contains(name, "alloc") {
			most *= raceMargin
		}
		if now, counted := got[name]; !counted || now > most {
			t.Errorf("one command costs the server %.1f %s; the stored count is %.1f, and at most %.1f is allowed.\n"+
				"If that is intended: UPDATE=1 go test -run Counts ./bench", now, name, n, most)
		}
	}
	t.Log(got)
}

// count runs commands on a server with all features on, over real pipes, and returns
// what each cost server and client together. One read and one write are the client's.
func count(t *testing.T) map[string]float64 {
	s := newCounted(t)
	s.call(t, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"counts","version":"1"}}`)
	const exec = `{"name":"exec","arguments":{"cmd":"echo hello"}}`
	for range rounds {
		if said := s.call(t, "tools/call", exec); !strings.Contains(said, `"exitCode":0`) || !strings.Contains(said, "hello") {
			t.Fatal(said)
		}
	}
	before := s.now(t)
	for range rounds {
		s.call(t, "tools/call", exec)
	}
	after := s.now(t)
	each := map[string]float64{}
	for name, n := range after {
		each[name] = (n - before[name]) / rounds
	}
	return each
}

// counted is a server on stdio in this process, and its client.
type counted struct {
	in     io.Writer
	out    *bufio.Reader
	id     int
	stream *counter
	logs   string
}

func newCounted(t *testing.T) *counted {
	c := &counted{stream: new(counter), logs: t.TempDir()}
	quiet := slog.New(slog.NewJSONHandler(io.Discard, nil))
	m := &sandbox.Manager{
		Launcher: counting{boxtest.Agent(t), c.stream}, Logs: &rawlog.Store{Dir: c.logs}, Defaults: sandbox.Spec{Spares: 1},
		Commands: policy.Commands{Deny: []string{"shutdown"}}, Secrets: &redact.Redactor{Values: []string{"a secret that nobody prints"}}, Logger: quiet,
	}
	set := tools.Set{Manager: m, Owner: server.Owner, NoWait: server.NoWait, Logger: quiet}
	s := &server.Server{Manager: m, Tools: set.Tools(), Resources: set.Resources(), Version: "1", Logger: quiet}
	stdin, in := pipe(t)
	out, stdout := pipe(t)
	served := make(chan error, 1)
	go func() { served <- s.ServeStdio(context.Background(), stdin, stdout) }()
	t.Cleanup(func() {
		in.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	c.in, c.out = in, bufio.NewReaderSize(out, 64<<10)
	return c
}

func pipe(t *testing.T) (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// call returns the reply, and skips other messages of the server.
func (c *counted) call(t *testing.T, method, params string) string {
	c.id++
	if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.id, method, params); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, fmt.Sprintf(`"id":%d,`, c.id)) {
			return line
		}
	}
}

// now is what has been counted so far.
func (c *counted) now(t *testing.T) map[string]float64 {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	logs, err := os.ReadDir(c.logs)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]float64{
		"allocations":             float64(mem.Mallocs),
		"bytes allocated":         float64(mem.TotalAlloc),
		"reads and writes":        float64(boxtest.ProcessIO(t, "syscr", "syscw")),
		"writes to the agent":     float64(c.stream.writes.Load()),
		"bytes to the agent":      float64(c.stream.written.Load()),
		"reads from the agent":    float64(c.stream.reads.Load()),
		"bytes from the agent":    float64(c.stream.read.Load()),
		"files in the log folder": float64(len(logs)),
	}
}

// counting is a Launcher whose streams are counted.
type counting struct {
	sandbox.Launcher
	counter *counter
}

func (l counting) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	stream, err := l.Launcher.Launch(ctx, id, spec)
	if err != nil {
		return nil, err
	}
	return &countedStream{stream, l.counter}, nil
}

type counter struct{ writes, written, reads, read atomic.Int64 }

type countedStream struct {
	io.ReadWriteCloser
	*counter
}

func (s *countedStream) Place() sandbox.Place { return s.ReadWriteCloser.(sandbox.Placed).Place() }

func (s *countedStream) Write(p []byte) (int, error) {
	n, err := s.ReadWriteCloser.Write(p)
	s.writes.Add(1)
	s.written.Add(int64(n))
	return n, err
}

func (s *countedStream) Read(p []byte) (int, error) {
	n, err := s.ReadWriteCloser.Read(p)
	s.reads.Add(1)
	s.counter.read.Add(int64(n))
	return n, err
}

// countsFile has the stored counts.
const countsFile = "testdata/counts.txt"

const countsComment = `# What one command costs the server and its client, with policy, log, secrets and spares.
# TestCounts allows a tenth more. Renew: UPDATE=1 go test -run Counts ./bench
`

func readCounts(file string) (map[string]float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	counts := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if line[0] == '#' {
			continue
		}
		figure, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if counts[name], err = strconv.ParseFloat(figure, 64); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	if len(counts) == 0 {
		err = fmt.Errorf("%s has no count", file)
	}
	return counts, err
}

func writeCounts(file string, got map[string]float64) error {
	text := countsComment
	for _, name := range slices.Sorted(maps.Keys(got)) {
		text += fmt.Sprintf("%.1f  %s\n", got[name], name)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
