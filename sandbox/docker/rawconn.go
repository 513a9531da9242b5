package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// A rawConn is a connection to the engine after an HTTP upgrade: of an attach or an
// exec. Its first bytes may have arrived with the response.
type rawConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *rawConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite signals the end of input, if the transport can.
func (c *rawConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// errUpgrade says that the connection failed before the engine answered.
var errUpgrade = errors.New("the engine's connection failed")

// upgrade posts a request whose response turns the connection into a raw stream.
// The client's own method cannot be canceled while an engine hangs. ctx bounds the
// request, not the stream.
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
		return nil, fmt.Errorf("%w: %w", errUpgrade, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	raw, err := handshake(conn, req)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return raw, nil
}

func handshake(conn net.Conn, req *http.Request) (*rawConn, error) {
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("%w: %w", errUpgrade, err)
	}
	r := bufio.NewReaderSize(conn, 64<<10)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUpgrade, err)
	}
	// Old engines answer 200, and the stream begins all the same.
	if resp.StatusCode != http.StatusSwitchingProtocols && resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		var refusal struct{ Message string }
		if json.Unmarshal(text, &refusal) == nil && refusal.Message != "" {
			text = []byte(refusal.Message)
		}
		return nil, fmt.Errorf("%s: %s", resp.Status, sanitize(string(text), 300))
	}
	return &rawConn{Conn: conn, r: r}, nil
}

// A demultiplexer reads standard output from a stream in which the engine
// multiplexes both outputs of a process: each piece follows a header of eight bytes,
// which are the number of the output, three zeros and the length. It copies standard
// error to stderr, and allocates nothing for a length.
type demultiplexer struct {
	r      io.Reader
	stderr *sandbox.LastLines
	left   int // unread bytes of the current piece, all of stdout
}

// maxPiece is far above the 32 KiB that engines send at once. A longer piece means
// that the bytes are no header.
const maxPiece = 16 << 20

func (d *demultiplexer) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for d.left == 0 {
		if err := d.next(); err != nil {
			return 0, err
		}
	}
	n, err := d.r.Read(p[:min(len(p), d.left)])
	d.left -= n
	if err == io.EOF && d.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// next reads a header, and the whole piece if that is not stdout.
func (d *demultiplexer) next() error {
	var h [8]byte
	if _, err := io.ReadFull(d.r, h[:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(h[4:])
	if h[0] > 2 || h[1] != 0 || h[2] != 0 || h[3] != 0 || length > maxPiece {
		return fmt.Errorf("the engine sent %x in place of a header of a multiplexed stream", h)
	}
	if h[0] == 1 {
		d.left = int(length)
		return nil
	}
	_, err := io.CopyN(d.stderr, d.r, int64(length))
	return err
}
