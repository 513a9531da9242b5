package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"

	"github.com/warmbox/warmbox/sandbox/excerpt"
)

// Options select a model of an API.
type Options struct {
	Model   string // its name in the API
	BaseURL string // of the API; "": the provider's own
	Key     Key    // some servers need none
}

// maxTokens bounds the reply of a model. The prompt asks for 200 tokens, and a model
// that thinks first needs more.
const maxTokens = 1024

// maxBody bounds a response: a reply, in which JSON may escape each byte in six, and the
// text that the API adds.
const maxBody = 64 << 10

// newClient returns a client that does not follow redirects and keeps no connection
// open.
//
// A redirect would send the digest to another server. Summaries are too rare to reuse
// connections, and nothing would close idle ones.
func newClient(k Key) *http.Client {
	return &http.Client{Transport: &strict{k, &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxBody,
	}}}
}

// A strict transport returns only successful responses. It bounds responses, does not
// follow redirects, and masks the key in error messages of the API.
type strict struct {
	key  Key
	base http.RoundTripper
}

func (s *strict) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := s.base.RoundTrip(req)
	if err != nil {
		return nil, s.key.cleanse(err)
	}
	res.Body = &bounded{res.Body, maxBody}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode/100 == 3 {
		return nil, fmt.Errorf("the server answered with a redirect (%d), which is not followed; check the base URL", res.StatusCode)
	}
	body, _ := io.ReadAll(res.Body) // a part of it is enough for a message
	return nil, fmt.Errorf("the server answered with status %d: %s", res.StatusCode, oneLine(s.key.mask(errorMessage(body))))
}

// A bounded body returns an error if it is too long.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("the response has more than %d bytes", maxBody)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// errorMessage finds the message in the body of an error. APIs write
// {"error": {"message": "…"}}, and some servers {"error": "…"}.
func errorMessage(body []byte) string {
	var answer struct{ Error json.RawMessage }
	var text string
	var inner struct{ Message string }
	if json.Unmarshal(body, &answer) != nil {
		return string(body)
	}
	if json.Unmarshal(answer.Error, &text) == nil {
		return text
	}
	if json.Unmarshal(answer.Error, &inner) == nil {
		return inner.Message
	}
	return string(body)
}

// An endpoint is a URL of an API with its client.
type endpoint struct {
	url    string
	header http.Header // of each request
	client *http.Client
	key    Key
}

func newEndpoint(base, path string, header http.Header, k Key) *endpoint {
	header.Set("Content-Type", "application/json")
	header.Set("User-Agent", "warmbox")
	return &endpoint{strings.TrimRight(base, "/") + path, header, newClient(k), k}
}

// ask sends one request and decodes the response. It does not retry.
//
// The two APIs need no more than this. Their SDKs would triple the size of the program,
// and they read keys and addresses from the environment.
func (e *endpoint) ask(ctx context.Context, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return e.key.cleanse(err)
	}
	req.Header = e.header.Clone()
	res, err := e.client.Do(req)
	if err != nil {
		return e.key.cleanse(err)
	}
	defer res.Body.Close()
	if body, err = io.ReadAll(res.Body); err == nil {
		err = json.Unmarshal(body, answer)
	}
	if err != nil {
		return e.key.cleanse(fmt.Errorf("read the response of %s: %w", e.url, err))
	}
	return nil
}

// maxMessage bounds the text of servers and commands in an error.
const maxMessage = 200

// oneLine makes a text of a server or command fit for an error and a log.
func oneLine(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' })
	return excerpt.Clip(strings.Join(words, " "), maxMessage)
}

// cleanse makes an error of the transport or decoder, which may contain the key or text
// of the server, fit for an error and a log.
func (k Key) cleanse(err error) error { return errors.New(oneLine(k.mask(err.Error()))) }

// Reach checks whether a server answers at the URL of an API. It sends no data, and any
// response will do.
func Reach(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return err
	}
	res, err := newClient(Key{}).Transport.(*strict).base.RoundTrip(req)
	if err != nil {
		return Key{}.cleanse(err)
	}
	return res.Body.Close()
}
