package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/docker/docker/client"
)

// A fakeEngine answers the HTTP requests of a client. It shows how this package
// meets an engine that hangs, fails or forgets, which no real engine does on demand.
type fakeEngine func(*http.Request) (*http.Response, error)

func (f fakeEngine) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fake returns an engine whose client sends its requests to f.
func fake(t *testing.T, f fakeEngine) *engine {
	t.Helper()
	return fakeAt(t, client.DefaultDockerHost, f)
}

// fakeAt is fake for a client that reports another host.
func fakeAt(t *testing.T, host string, f fakeEngine) *engine {
	t.Helper()
	c, err := client.NewClientWithOpts(client.WithHost(host), client.WithHTTPClient(&http.Client{Transport: f}), client.WithVersion("1.41"))
	if err != nil {
		t.Fatal(err)
	}
	return &engine{Client: c, cleanups: newCleanups()}
}

// reply is an engine's answer with a body in JSON.
func reply(status int, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(text)),
	}, err
}

// fail is an engine's answer that refuses a request.
func fail(status int, text string) (*http.Response, error) {
	return reply(status, map[string]string{"message": text})
}

// answerAfter answers a ping after some time, unless the request ends before.
func answerAfter(ctx context.Context, wait time.Duration) (*http.Response, error) {
	select {
	case <-time.After(wait):
		return reply(http.StatusOK, "OK")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// neverAnswers returns when the request is canceled.
func neverAnswers(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}
