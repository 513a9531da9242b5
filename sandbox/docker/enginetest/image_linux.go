package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// Load copies an image from the machine's own engine, under a name. One of 130 MB takes
// two seconds, one of 400 MB eleven.
func (e *Engine) Load(image, as string) {
	e.t.Helper()
	saved, err := call(e.t.Context(), machineEngine(), "GET", "/images/"+image+"/get", nil)
	if err != nil {
		e.t.Fatal(err)
	}
	defer saved.Close()
	loaded, err := call(e.t.Context(), e.Host, "POST", "/images/load?quiet=1", saved)
	if err != nil {
		e.t.Fatal(err)
	}
	defer loaded.Close()
	text, err := io.ReadAll(io.LimitReader(loaded, 1<<20))
	if err != nil || bytes.Contains(text, []byte(`"error"`)) {
		e.t.Fatalf("load %s: %s, %v", image, text, err)
	}
	repo, tag, _ := strings.Cut(as, ":")
	named, err := call(e.t.Context(), e.Host, "POST", "/images/"+image+"/tag?"+url.Values{"repo": {repo}, "tag": {tag}}.Encode(), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	named.Close()
}

// Base returns the image that another was built on, the lowest that the machine's own
// engine knows: it has a shell and little more, and loads quickly.
func Base(t testing.TB, image string) string {
	t.Helper()
	for {
		body, err := call(t.Context(), machineEngine(), "GET", "/images/"+image+"/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		var found struct{ ID, Parent string }
		err = json.NewDecoder(io.LimitReader(body, 1<<20)).Decode(&found)
		body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if found.Parent == "" {
			return found.ID
		}
		image = found.Parent
	}
}

// machineEngine returns the address of the machine's own engine.
func machineEngine() string {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return host
	}
	return "unix:///var/run/docker.sock"
}

// call sends a request to an engine and returns the body of the response.
func call(ctx context.Context, host, method, path string, body io.Reader) (io.ReadCloser, error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(host, "unix://"))
		},
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json") // engines check it where they expect JSON only
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<12))
	return nil, fmt.Errorf("%s %s at %s: %s: %s", method, path, host, resp.Status, text)
}

// ping reports whether the engine answers.
func (e *Engine) ping() error {
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Second)
	defer cancel()
	body, err := call(ctx, e.Host, "GET", "/_ping", nil)
	if err != nil {
		return err
	}
	return body.Close()
}

// listens reports whether a process listens on a unix socket.
func listens(path string) bool {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
