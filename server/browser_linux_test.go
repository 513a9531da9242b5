package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// browser returns the program of an installed browser.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	const reason = "there is no browser; on Debian: apt-get install --no-install-recommends chromium-headless-shell"
	if strings.Contains(os.Getenv("WARMBOX_REQUIRE"), "browser") {
		t.Fatal(reason)
	}
	t.Skip(reason)
	return ""
}

// visit opens a page until ctx ends. No name resolves but evil.example, which is this machine.
func visit(ctx context.Context, t *testing.T, program, page string) {
	cmd := exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--user-data-dir="+t.TempDir(), "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--remote-debugging-port=0", page) // without a port to be debugged by, it closes at once
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it is many processes
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if out, err := cmd.CombinedOutput(); err != nil && ctx.Err() == nil {
		t.Errorf("the browser ended: %v: %.2000s", err, out)
	}
}

// pages serves the page and returns what it reports. Other requests go to behind, if that is not
// nil.
func pages(t *testing.T, behind http.Handler) (*httptest.Server, <-chan map[string]string) {
	reports := make(chan map[string]string, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page.html", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "testdata/browser/page.html")
	})
	mux.HandleFunc("POST /report", func(_ http.ResponseWriter, r *http.Request) {
		var report map[string]string
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			t.Error(err)
		}
		reports <- report
	})
	if behind != nil {
		mux.Handle("/", behind)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s, reports
}

// TestWebPagesCannotUseTheServer: a page of another origin reads nothing and causes nothing, even
// if it knows a token, or has the server's own origin by DNS rebinding. An allowed page shows
// that the test can detect success.
func TestWebPagesCannotUseTheServer(t *testing.T) {
	program := browser(t)
	var calls atomic.Int32
	s := newServer(t)
	s.Tools = []mcpserver.ServerTool{{Tool: mcp.NewTool("exec"), Handler: func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		calls.Add(1)
		return mcp.NewToolResultText("done"), nil
	}}}
	friend, friendReports := pages(t, nil)
	evil, evilReports := pages(t, nil)
	base := listen(t, s, HTTP{SSE: true, AllowOrigins: []string{friend.URL}})
	target, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	rebound, reboundReports := pages(t, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // as if the name led there
	}})
	named := strings.Replace(rebound.URL, "127.0.0.1", "evil.example", 1)

	for _, test := range []struct {
		name, page, target, token string
		reports                   <-chan map[string]string
		allowed                   bool
	}{
		{"allowed", friend.URL, base, testToken, friendReports, true},
		{"other origin", evil.URL, base, "", evilReports, false},
		{"other origin that knows a token", evil.URL, base, testToken, evilReports, false},
		{"rebound name", named, named, "", reboundReports, false},
		{"rebound name that knows a token", named, named, testToken, reboundReports, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls.Store(0)
			ctx, leave := context.WithTimeout(t.Context(), 2*waitLimit)
			defer leave()
			left := make(chan struct{})
			go func() {
				defer close(left)
				visit(ctx, t, program, test.page+"/page.html?"+url.Values{"target": {test.target}, "token": {test.token}}.Encode())
			}()
			var report map[string]string
			select {
			case report = <-test.reports:
			case <-left:
				t.Fatal("the browser ended without a report")
			case <-ctx.Done():
				t.Error("the page did not report")
			}
			leave()
			<-left
			if test.allowed {
				if !strings.Contains(report["initialize"], "cors 200") || !strings.Contains(report["stream"], "endpoint") {
					t.Errorf("the control got %q", report)
				}
				return
			}
			for way, got := range report {
				if !refusedBy(got) {
					t.Errorf("by %s the page got %q", way, got)
				}
			}
			if len(report) < 16 || calls.Load() != 0 {
				t.Errorf("%d ways were tried, %d calls came through", len(report), calls.Load())
			}
		})
	}
}

// refusedBy reports whether a page only got an error, a response that the browser hides from it,
// or a refusal.
func refusedBy(got string) bool {
	return strings.HasPrefix(got, "failed: ") || strings.TrimSpace(got) == "opaque 0" ||
		strings.HasPrefix(got, "basic 4") || strings.Contains(got, `"code":-32600`)
}
