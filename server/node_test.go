package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// clients is the directory of the JavaScript clients and their dependencies.
const clients = "testdata/clients"

// node runs a script with the Node of that directory: the Inspector needs a newer one than many
// systems have.
func node(t *testing.T, args ...string) string {
	t.Helper()
	binaries, _ := filepath.Glob(clients + "/node_modules/node-*/bin/node")
	if len(binaries) == 0 {
		const reason = "the clients in JavaScript are not installed; run npm ci in server/testdata/clients"
		if strings.Contains(os.Getenv("WARMBOX_REQUIRE"), "node") {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	binary, err := filepath.Abs(binaries[0])
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = clients
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "NO_COLOR=1", "WARMBOX_TEST_TOKEN="+testToken)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("node %s: %v\n%.5000s\n%.5000s", strings.Join(args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String()
}

func TestTypeScriptClients(t *testing.T) {
	base := listen(t, newServer(t), HTTP{SSE: true})
	for _, library := range []string{"sdk", "client"} {
		for transport, target := range map[string][]string{
			"stdio": stdioServer(t), "http": {base + "/mcp"}, "sse": {base + "/sse"},
		} {
			t.Run(library+"/"+transport, func(t *testing.T) {
				out := node(t, append([]string{"conversation.mjs", library, transport}, target...)...)
				t.Log(strings.TrimSpace(out))
			})
		}
	}
}

const inspector = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"

func TestInspector(t *testing.T) {
	base := listen(t, newServer(t), HTTP{})
	for name, target := range map[string]struct{ before, after []string }{
		"stdio": {after: append([]string{"--"}, stdioServer(t)...)},
		"http":  {before: []string{base + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + testToken}},
	} {
		t.Run(name, func(t *testing.T) {
			inspect := func(args ...string) map[string]any {
				t.Helper()
				out := node(t, slices.Concat([]string{inspector, "--cli"}, target.before, args, target.after)...)
				var m map[string]any
				if err := json.Unmarshal([]byte(out), &m); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return m
			}
			if list := inspect("--method", "tools/list", "--strict"); len(list["tools"].([]any)) != 6 {
				t.Errorf("tools/list: %v", list)
			}
			result := inspect("--method", "tools/call", "--tool-name", "exec", "--tool-arg", "cmd=echo hello")
			if fields(t, result["structuredContent"])["stdout"] != "hello\n" {
				t.Errorf("exec: %v", result)
			}
			result = inspect("--method", "tools/call", "--tool-name", "start")
			if fields(t, result["structuredContent"])["id"] == "" {
				t.Errorf("start: %v", result)
			}
		})
	}
}

// TestConformance runs the scenarios of the official suite that are for any server; the others
// need the tools of its own example. The suite sends no token, so a proxy adds one.
func TestConformance(t *testing.T) {
	target, _ := url.Parse(listen(t, newServer(t), HTTP{}))
	between := httptest.NewServer(&httputil.ReverseProxy{Transport: httpClient().Transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // which is what one scenario is about
	}})
	defer between.Close()
	for _, scenario := range []string{
		"server-initialize", "ping", "tools-list", "dns-rebinding-protection", "server-sse-multiple-streams", "server-sse-polling", "resources-list",
	} {
		t.Run(scenario, func(t *testing.T) {
			out := node(t, "node_modules/@modelcontextprotocol/conformance/dist/index.js", "server", "--url", between.URL+"/mcp", "--scenario", scenario, "-o", t.TempDir())
			if !strings.Contains(out, "0 failed") {
				t.Error(out)
			}
		})
	}
}
