package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestMetricsCountCallsForPrincipalsOnly: a client without a valid token reads none.
func TestMetricsCountCallsForPrincipalsOnly(t *testing.T) {
	base := listen(t, newServer(t), HTTP{})
	session := []string{"Mcp-Session-Id", connect(t, base+"/mcp")}
	for _, call := range []string{
		`"exec","arguments":{"cmd":"echo hello"}`,
		`"exec","arguments":{"cmd":"exit 3"}`,
		`"exec","arguments":{"cmd":"sleep 1000","background":true}`,
		`"exec","arguments":{"cmd":"true","containerId":"b-none"}`,
		`"start","arguments":{}`,
	} {
		post(t, base+"/mcp", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":`+call+`}}`, session...)
	}
	text := scrape(t, base, "Bearer "+testToken, http.StatusOK)
	for _, want := range []string{
		`warmbox_calls_total{code="ok",tool="exec"} 2`,
		`warmbox_calls_total{code="EXEC_FAILED",tool="exec"} 1`,
		`warmbox_calls_total{code="BOX_NOT_FOUND",tool="exec"} 1`,
		`warmbox_calls_total{code="ok",tool="start"} 1`,
		`warmbox_call_seconds_count{tool="exec"} 4`,
		`warmbox_boxes{state="busy"} 1`,
		`warmbox_boxes{state="idle"} 1`,
		`warmbox_pool_total{result="hit"} 0`,
		`warmbox_runs 1`,
		`warmbox_runs_ended_total{status="exited"} 2`,
		`warmbox_output_bytes_total 6`,
		`warmbox_summaries_total{by="builtin"} 3`,
		`process_resident_memory_bytes `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	scrape(t, base, "", http.StatusUnauthorized)
	scrape(t, base, "Bearer wrong", http.StatusUnauthorized)
}

func scrape(t *testing.T, base, authorization string, status int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", base+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Errorf("%s, want %d: %s %v", resp.Status, status, text, err)
	}
	return string(text)
}
