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

// Load brings an image of the machine's own engine, under a name. One of 130 MB
// takes two seconds, one of 400 MB eleven.
func (e *Engine) Load(image, as string) {
	e.t.Helper()
	saved, err := call(e.t.Context(), shared(), "GET", "/images/"+image+"/get", nil)
	if err != nil {
		e.t.Fatal(err)
	}
	defer saved.Close()
	loaded, err := call(e.t.Context(), e.Host, "POST", "/images/load?quiet=1", saved)
	if err != nil {
		e.t.Fatal(err)
	}
	defer loaded.Close()
	words, err := io.ReadAll(io.LimitReader(loaded, 1<<20))
	if err != nil || bytes.Contains(words, []byte(`"error"`)) {
		e.t.Fatalf("load %s: %s, %v", image, words, err)
	}
	repo, tag, _ := strings.Cut(as, ":")
	named, err := call(e.t.Context(), e.Host, "POST", "/images/"+image+"/tag?"+url.Values{"repo": {repo}, "tag": {tag}}.Encode(), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	named.Close()
}

// Base returns the image that another one was built on, as far down as the
// machine's own engine knows: what has a shell and little more, and loads
// quickly.
func Base(t testing.TB, image string) string {
	t.Helper()
	for {
		body, err := call(t.Context(), shared(), "GET", "/images/"+image+"/json", nil)
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

// shared returns where the machine's own engine listens.
func shared() string {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return host
	}
	return "unix:///var/run/docker.sock"
}

// call asks an engine for something and returns the body of its answer.
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
	req.Header.Set("Content-Type", "application/json") // engines look at it where they expect that, and nowhere else
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	words, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<12))
	return nil, fmt.Errorf("%s %s at %s: %s: %s", method, path, host, resp.Status, words)
}

// ping asks the engine whether it is there.
func (e *Engine) ping() error {
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Second)
	defer cancel()
	body, err := call(ctx, e.Host, "GET", "/_ping", nil)
	if err != nil {
		return err
	}
	return body.Close()
}

// listens reports whether somebody listens on a unix socket.
func listens(path string) bool {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
