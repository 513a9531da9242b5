package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// bytesPerToken is the usual rule of thumb. Logs have more tokens than that,
	// some three bytes to one, but so have both sides of what is compared.
	bytesPerToken = 4
	// shownWhole is up to where an output is shown as it is.
	shownWhole = 8000
)

// reading is what an output costs a model to read, in tokens.
type reading struct{ raw, reply int }

// reportTokens runs what prints each case's output, and compares that output
// with the text of the reply. It goes through the server, on the backend that
// needs no engine: where a command runs changes nothing in how it is told of.
func reportTokens(ctx context.Context, o options, out io.Writer) (err error) {
	cases, err := filepath.Glob(filepath.Join(o.cases, "*", "*", "exit"))
	if err != nil || len(cases) == 0 {
		return fmt.Errorf("no cases in %s; name the folder that has them with -cases", o.cases)
	}
	dir, err := os.MkdirTemp("", "warmbox-bench-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := newServer(ctx, o, dir, "backend = \"process\"\ncommands.allow = [\"*\"]\n")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	box, err := s.start(ctx)
	if err != nil {
		return err
	}
	var all []reading
	for _, path := range cases {
		r, err := s.read(ctx, box, filepath.Dir(path))
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Dir(path), err)
		}
		all = append(all, r)
	}
	printReadings(out, all)
	return nil
}

// read runs what prints a case's output and ends as its command did.
func (s *server) read(ctx context.Context, box, dir string) (reading, error) {
	code, err := os.ReadFile(filepath.Join(dir, "exit"))
	if err != nil {
		return reading{}, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return reading{}, err
	}
	cmd := fmt.Sprintf("cd '%s' && if [ -e output ]; then cat output; else gzip -dc output.gz; fi; exit %s", dir, strings.TrimSpace(string(code)))
	reply, err := s.session.CallTool(ctx, &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"containerId": box, "cmd": cmd}})
	if err != nil {
		return reading{}, err
	}
	raw, err := rawBytes(reply)
	if err != nil {
		return reading{}, err
	}
	text := 0
	for _, c := range reply.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text += len(t.Text)
		}
	}
	return reading{int(raw / bytesPerToken), text / bytesPerToken}, nil
}

// rawBytes is the size of the log that a reply is about.
func rawBytes(reply *mcp.CallToolResult) (int64, error) {
	text, err := json.Marshal(reply.StructuredContent)
	if err != nil {
		return 0, err
	}
	var r execResult
	if err := json.Unmarshal(text, &r); err != nil || r.Status != "exited" {
		return 0, fmt.Errorf("the command did not end by itself: %.500s", text)
	}
	info, err := os.Stat(r.LogPath)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func printReadings(out io.Writer, all []reading) {
	long := slices.DeleteFunc(slices.Clone(all), func(r reading) bool { return r.raw*bytesPerToken <= shownWhole })
	row(out, "tokens to read", "cases", "raw", "reply", "raw ÷ reply")
	for _, g := range []struct {
		name string
		list []reading
		of   func([]int) int
	}{
		{"median of all", all, median},
		{"median of those not shown whole", long, median},
		{"sum of all", all, sum},
	} {
		var raw, reply []int
		for _, r := range g.list {
			raw, reply = append(raw, r.raw), append(reply, r.reply)
		}
		a, b := g.of(raw), g.of(reply)
		row(out, g.name, strconv.Itoa(len(g.list)), strconv.Itoa(a), strconv.Itoa(b), fmt.Sprintf("%.1f", float64(a)/float64(max(1, b))))
	}
}

func median(list []int) int {
	if len(list) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(list))[len(list)/2]
}

func sum(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}
