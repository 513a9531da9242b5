package server

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

var update = flag.Bool("update", false, "rewrite what hosts show their models, in testdata/hosts")

// hostFiles is the directory of the hosts, their dependencies, and of what each shows its model.
const hostFiles = "testdata/hosts"

// hostScript is what the model of each host calls. LAST is the id of the last command that a result
// names, as a model would read it.
var hostScript = []scripted{
	{"exec", `{"cmd":"echo hello"}`},
	{"exec", `{"cmd":"echo building; sleep 0.1; echo main.c:7: error >&2; exit 3"}`},
	{"exec", `{"cmd":"seq 3000"}`},
	{"logs", `{"execId":"LAST","tail":3}`},
	{"exec", `{"cmd":"printf '\\000\\001\\033[31mred\\033[0m\\377\\n'"}`},
	{"exec", `{"cmd":"cat","background":true}`},
	{"logs", `{"execId":"LAST"}`},
	{"exec", `{"cmd":"ls","containerId":"b-none"}`},
}

// A host is a program with a model that uses tools.
type host struct {
	name string
	argv []string                                             // relative to node_modules; a first "node" is the installed one
	env  func(home, model string) []string                    // besides what all have
	file func(model string, server []string) (string, string) // its configuration: a path in its home directory, and the text
}

const prompt = "Use warmbox."

var hosts = []host{{
	name: "claude-code",
	argv: []string{".bin/claude", "-p", prompt, "--strict-mcp-config", "--mcp-config", "$HOME/mcp.json", "--allowedTools", "mcp__warmbox"},
	env: func(_, model string) []string {
		return []string{"ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=x", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1"}
	},
	file: func(_ string, server []string) (string, string) {
		return "mcp.json", encode(object{"mcpServers": object{"warmbox": object{"command": server[0], "args": server[1:]}}})
	},
}, {
	name: "codex",
	argv: []string{"node", "@openai/codex/bin/codex.js", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt},
	env:  func(home, _ string) []string { return []string{"CODEX_HOME=" + home} },
	file: func(model string, server []string) (string, string) {
		return "config.toml", fmt.Sprintf("model = \"m\"\nmodel_provider = \"standin\"\ncheck_for_update_on_startup = false\n[analytics]\nenabled = false\n[features]\napps = false\nplugins = false\n"+
			"[model_providers.standin]\nname = \"standin\"\nbase_url = %q\nwire_api = \"responses\"\n"+
			"[mcp_servers.warmbox]\ncommand = %q\nargs = %s\n", model+"/v1", server[0], encode(server[1:]))
	},
}, {
	name: "opencode",
	argv: []string{".bin/opencode", "run", prompt},
	env: func(home, _ string) []string {
		return []string{"OPENCODE_CONFIG=" + home + "/opencode.json", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_PURE=1", "npm_config_offline=true", "npm_config_fetch_retries=0"}
	},
	file: func(model string, server []string) (string, string) {
		return "opencode.json", encode(object{
			"model": "standin/m", "autoupdate": false, "share": "disabled",
			"provider": object{"standin": object{"npm": "@ai-sdk/openai-compatible", "options": object{"baseURL": model + "/v1", "apiKey": "x"}, "models": object{"m": object{"name": "m"}}}},
			"mcp":      object{"warmbox": object{"type": "local", "command": server}},
		})
	},
}, {
	name: "gemini-cli",
	argv: []string{"node", ".bin/gemini", "-y", "-m", "gemini-2.5-flash", "-p", prompt},
	env: func(_, model string) []string {
		return []string{"GEMINI_API_KEY=x", "GOOGLE_GEMINI_BASE_URL=" + model, "GEMINI_CLI_TRUST_WORKSPACE=true"}
	},
	file: func(_ string, server []string) (string, string) {
		return ".gemini/settings.json", encode(object{
			"mcpServers": object{"warmbox": object{"command": server[0], "args": server[1:], "trust": true}},
			"security":   object{"auth": object{"selectedType": "gemini-api-key"}},
			"privacy":    object{"usageStatisticsEnabled": false}, "telemetry": object{"enabled": false},
			"general": object{"enableAutoUpdate": false, "disableAutoUpdate": true, "disableUpdateNag": true},
		})
	},
}, {
	name: "copilot-cli",
	argv: []string{"node", ".bin/copilot", "-p", prompt, "--allow-all-tools"},
	env: func(_, model string) []string {
		return []string{"COPILOT_PROVIDER_BASE_URL=" + model + "/v1", "COPILOT_OFFLINE=true", "COPILOT_MODEL=m", "COPILOT_AUTO_UPDATE=false"}
	},
	file: func(_ string, server []string) (string, string) {
		return ".copilot/mcp-config.json", encode(object{"mcpServers": object{"warmbox": object{"type": "local", "command": server[0], "args": server[1:], "tools": []string{"*"}}}})
	},
}}

// TestHostsShowTheirModels: testdata/hosts has what the model of each host reads, in the version of
// package.json. A host whose new version shows something else appears in the diff; tools.hosts says
// which form a host shows.
func TestHostsShowTheirModels(t *testing.T) {
	weekly.Only(t)
	node := hostNode(t)
	for _, h := range hosts {
		t.Run(h.name, func(t *testing.T) {
			model := newStandIn(t, hostScript)
			out := h.run(t, node, model)
			if len(model.results) != len(hostScript) {
				t.Fatalf("%d results, want %d; %d tools were shown\n%s", len(model.results), len(hostScript), len(model.tools), out)
			}
			for i, output := range map[int]string{0: "hello", 1: "main.c:7: error"} {
				if n := strings.Count(model.results[i], output); n != 1 {
					t.Errorf("the model reads the output of %s %d times:\n%s", hostScript[i].args, n, model.results[i])
				}
			}
			matchHost(t, h.name, model)
		})
	}
}

// hostNode returns the installed Node: the hosts need a newer one than many systems have.
func hostNode(t *testing.T) string {
	found, _ := filepath.Glob(hostFiles + "/node_modules/node*/bin/node")
	if len(found) > 0 {
		path, err := filepath.Abs(found[0])
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	const reason = "the hosts are not installed; run npm ci in server/" + hostFiles
	if strings.Contains(os.Getenv("WARMBOX_REQUIRE"), "hosts") {
		t.Fatal(reason)
	}
	t.Skip(reason)
	return ""
}

// run runs a host for one prompt, and returns what it printed. It reaches its model and nothing else.
func (h host) run(t *testing.T, node string, model *standIn) string {
	home, work := t.TempDir(), t.TempDir()
	path, text := h.file(model.url, stdioServer(t))
	path = filepath.Join(home, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	argv := slices.Clone(h.argv)
	for i, arg := range argv {
		argv[i] = strings.ReplaceAll(arg, "$HOME", home)
	}
	modules := filepath.Dir(filepath.Dir(filepath.Dir(node)))
	if argv[0] == "node" {
		argv[0], argv[1] = node, filepath.Join(modules, argv[1])
	} else {
		argv[0] = filepath.Join(modules, argv[0])
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.WaitDelay = work, time.Second
	loopback, _ := url.Parse(model.url)
	cmd.Env = append(h.env(home, model.url), "HOME="+home, "PATH="+filepath.Dir(node)+":"+os.Getenv("PATH"), "TERM=dumb", "NO_COLOR=1",
		"HTTP_PROXY="+model.url, "HTTPS_PROXY="+model.url, "http_proxy="+model.url, "https_proxy="+model.url,
		"NO_PROXY="+loopback.Hostname(), "no_proxy="+loopback.Hostname())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v\n%.3000s", h.name, err, out.String())
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	if len(model.elsewhere) > 0 {
		t.Errorf("%s tried to reach %q", h.name, model.elsewhere)
	}
	return out.String()
}

// matchHost compares what a host shows with its file.
func matchHost(t *testing.T, name string, model *standIn) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "instructions: %s\ntools: %s\nturns before the first call: %d\n", shownOf(model.prompt, instructions), toolNames(t, model), model.turns-1)
	for i, call := range model.script {
		fmt.Fprintf(&b, "\n-- %s %s --\n%s\n", call.tool, call.args, model.results[i])
	}
	got := b.String()
	for _, n := range []struct {
		from *regexp.Regexp
		to   string
	}{
		{regexp.MustCompile(`\b([be])-[0-9a-z]{10}\b`), "$1-k7fq3m9x2d"},
		{regexp.MustCompile(`( · )[0-9.]+ m?s\b`), "${1}5 ms"},
		{regexp.MustCompile(`"(duration|start)Ms":\d+`), `"${1}Ms":5`},
		{regexp.MustCompile(`Wall time: [0-9.]+ seconds`), "Wall time: 0.1 seconds"},
		{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "2026-01-02T03:04:05Z"},
		{regexp.MustCompile(`/[^ "]*/(e-[0-9a-z]{10}\.log)`), "/home/user/.local/state/warmbox/logs/$1"},
	} {
		got = n.from.ReplaceAllString(got, n.to)
	}
	file := filepath.Join(hostFiles, name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("what %s shows its model has changed; if that is meant, run this test with -update:\n%s", name, d)
	}
}

// shownOf says how much of a text a prompt, which is JSON, has.
func shownOf(prompt, text string) string {
	quoted, _ := json.Marshal(text)
	whole := strings.Trim(string(quoted), `"`)
	var plain bytes.Buffer // without the escapes that only Go writes
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	enc.Encode(text)
	for _, form := range []string{whole, strings.Trim(strings.TrimSpace(plain.String()), `"`)} {
		switch {
		case strings.Contains(prompt, form):
			return "whole"
		case strings.Contains(prompt, form[:40]):
			return "beginning"
		}
	}
	return "none"
}

// toolNames names the tools as the model sees them, with what is missing of their descriptions.
func toolNames(t *testing.T, model *standIn) string {
	descriptions := map[string]string{}
	for _, tool := range newServer(t).Tools {
		descriptions[tool.Tool.Name] = tool.Tool.Description
	}
	var list []string
	for _, tool := range model.tools {
		name := tool.name
		if tool.namespace != "" {
			name = tool.namespace + "/" + name
		}
		own := descriptions[tool.name[strings.LastIndexAny(tool.name, "_-")+1:]]
		if !strings.Contains(tool.description, own) {
			name += " (its description is cut)"
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
