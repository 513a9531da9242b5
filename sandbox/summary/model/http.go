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
)

// Options say which model of an API is asked, and how it is reached.
type Options struct {
	Model   string // as the API calls it
	BaseURL string // of the API; if empty, the provider's own
	Key     Key    // some servers want none
}

// maxTokens bounds what a model may write. It has been told to write 200 and
// needs some before that where it thinks first.
const maxTokens = 1024

// maxBody bounds an answer as it is read: a reply, six bytes for one where JSON
// escapes it, and what an API says around it.
const maxBody = 64 << 10

// newClient returns a client that reaches one place and keeps nothing open.
//
// A redirect would carry the digest where nobody sent it. Connections are not
// kept: a summary is wanted now and then, and nobody would close them.
func newClient(k Key) *http.Client {
	return &http.Client{Transport: &strict{k, &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxBody,
	}}}
}

// strict is a transport that returns good answers alone. An error of an API is
// read within its bound, a redirect is not followed, and the key is masked in
// whatever the API says.
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
		return nil, fmt.Errorf("it answered with a redirect (%d), which is not followed; is the base URL right?", res.StatusCode)
	}
	body, _ := io.ReadAll(res.Body) // what came in time tells enough
	return nil, fmt.Errorf("it answered with status %d: %s", res.StatusCode, oneLine(s.key.mask(complaint(body))))
}

// A bounded body ends in an error where it is longer than it may be.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxBody)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// complaint finds the sentence in the body of an error. APIs write
// {"error": {"message": "…"}}, and some servers {"error": "…"}.
func complaint(body []byte) string {
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

// An endpoint is the one place of an API that is asked.
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

// ask sends one request and decodes its answer. It sends nothing twice.
//
// The two APIs need no more than this. Their SDKs triple the size of the
// program, and read keys and addresses from the environment.
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
		return e.key.cleanse(fmt.Errorf("read the answer of %s: %w", e.url, err))
	}
	return nil
}

// maxComplaint bounds what others say in an error of ours.
const maxComplaint = 200

// oneLine makes a text of others fit for a sentence and for a log.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }), " ")
	if len(text) > maxComplaint {
		text = strings.ToValidUTF8(text[:maxComplaint], "") + "…"
	}
	return text
}

// cleanse makes an error of the transport or decoder, which may repeat what it
// was given and what it was told, fit for a sentence and for a log.
func (k Key) cleanse(err error) error { return errors.New(oneLine(k.mask(err.Error()))) }

// Reach finds out whether anything answers at the place of an API. It says
// nothing to it, and any answer will do.
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
