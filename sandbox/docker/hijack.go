package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// errNoUpgrade says that the engine's connection failed before it answered.
var errNoUpgrade = errors.New("the engine's connection failed")

// upgrade posts a request whose answer turns the connection into a raw stream.
// The client's own way of doing so cannot be given up on when an engine hangs.
// ctx bounds the request, not the stream.
func (e *engine) upgrade(ctx context.Context, path string, query url.Values, body any) (*rawConn, error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	target := url.URL{Scheme: "http", Host: "engine", Path: "/v" + e.ClientVersion() + path, RawQuery: query.Encode()}
	req, err := http.NewRequest(http.MethodPost, target.String(), bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "tcp")
	conn, err := e.Dialer()(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoUpgrade, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	raw, err := shake(conn, req)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return raw, nil
}

func shake(conn net.Conn, req *http.Request) (*rawConn, error) {
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoUpgrade, err)
	}
	r := bufio.NewReaderSize(conn, 64<<10)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoUpgrade, err)
	}
	// Old engines answer 200, and the stream begins all the same.
	if resp.StatusCode != http.StatusSwitchingProtocols && resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		var said struct{ Message string }
		if json.Unmarshal(text, &said) == nil && said.Message != "" {
			text = []byte(said.Message)
		}
		return nil, fmt.Errorf("%s: %s", resp.Status, clean(string(text), 300))
	}
	return &rawConn{Conn: conn, r: r}, nil
}

// A rawConn is a connection after an upgrade. Its first bytes may have come
// with the answer.
type rawConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *rawConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite passes on the end of input, where the transport can say so.
func (c *rawConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
