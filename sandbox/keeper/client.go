package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/warmbox/warmbox/filelock"
	"github.com/warmbox/warmbox/sandbox"
)

// Backend is the sandbox.Place.Backend of a box that a keeper holds.
const Backend = sandbox.KeptBackend

const (
	// retryPause is between two tries to reach a keeper that is starting or ending.
	retryPause = 20 * time.Millisecond

	// acquireTimeout is how long a keeper waits for the one before it: that may still pull
	// an image.
	acquireTimeout = 5 * time.Minute

	// maxTries bounds how many keepers one client starts.
	maxTries = 10
)

// A Client is the sandbox.Launcher of a program that runs commands in a box that a keeper
// holds. Its boxes are one box, of which each has a connection of its own.
type Client struct {
	Socket   string
	Settings map[string]string // that the box shall have been started with

	// Start starts a keeper and returns when that serves, or when another one does. An
	// error says why none can.
	Start func(ctx context.Context, progress func(string)) error
}

// Launch connects to the keeper, which it starts if there is none.
func (c *Client) Launch(ctx context.Context, _ string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	var err error
	for tries := 0; tries < maxTries; {
		var conn net.Conn
		if conn, err = dial(c.Socket); err != nil {
			tries++
			if err := c.Start(ctx, spec.Progress); err != nil {
				return nil, err
			}
			if conn, err = dial(c.Socket); err != nil {
				continue
			}
		}
		stream, again, err := c.greet(ctx, conn)
		if !again {
			return stream, err
		}
		if !sleep(ctx, retryPause) {
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("reach the process that holds the box: %w", err)
}

// greet exchanges the first messages. again says that the keeper is ending: the next one
// can be reached soon.
func (c *Client) greet(ctx context.Context, conn net.Conn) (s *stream, again bool, err error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	var a answer
	if err = send(conn, request{c.Settings}); err == nil {
		err = receive(conn, &a)
	}
	switch {
	case !stop():
		return nil, false, context.Cause(ctx)
	case err != nil:
		conn.Close()
		return nil, true, err
	case a.Error != "":
		conn.Close()
		return nil, false, sandbox.Errorf(sandbox.InvalidArgument, a.Hint, "%s", a.Error)
	case a.Place == nil:
		conn.Close()
		return nil, false, errors.New("the process that holds the box does not say where it is")
	}
	return &stream{conn, *a.Place, a.Box, a.Pid}, false, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A stream is a connection to a keeper in the place of one to an agent.
type stream struct {
	net.Conn
	place  sandbox.Place
	box    string // its id, as other programs know it
	keeper int    // the process id
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	return n, s.explain(err)
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	return n, s.explain(err)
}

// explain says of the end of the connection whose it was, unless this program ended it.
func (s *stream) explain(err error) error {
	if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return sandbox.Errorf(sandbox.BoxGone, "Run it again: if the box still runs, another process takes it.",
		"the warmbox process %d, which held box %s, hung up while the command ran", s.keeper, s.box)
}

func (s *stream) Place() sandbox.Place { return s.place }

// ErrServed says that another keeper serves the box.
var ErrServed = errors.New("another keeper serves the box")

// Try is Acquire without waiting: ErrServed says that another process has the right.
func Try(socket string) (*Door, error) {
	f, err := os.OpenFile(socket+".lock", os.O_RDWR|os.O_CREATE|filelock.NoFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if err = filelock.Try(f); err == nil {
		return &Door{socket, f}, nil
	}
	f.Close()
	if errors.Is(err, filelock.ErrHeld) {
		err = ErrServed
	}
	return nil, err
}

// A Door is the right to be the keeper of a box: of several processes one has it.
type Door struct {
	path string
	lock *os.File
}

// Acquire waits until no other process has the right, or returns ErrServed when one serves.
func Acquire(ctx context.Context, socket string) (*Door, error) {
	ctx, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	for {
		f, err := os.OpenFile(socket+".lock", os.O_RDWR|os.O_CREATE|filelock.NoFollow, 0o600)
		if err != nil {
			return nil, err
		}
		if err = filelock.Try(f); err == nil {
			return &Door{socket, f}, nil
		}
		f.Close()
		if !errors.Is(err, filelock.ErrHeld) {
			return nil, err
		}
		if conn, err := dial(socket); err == nil {
			conn.Close()
			return nil, ErrServed
		}
		if !sleep(ctx, retryPause) {
			return nil, errors.New("another process has been starting or leaving the box for too long")
		}
	}
}

// Listen listens on the socket. One that a killed keeper left is replaced.
func (d *Door) Listen() (net.Listener, error) {
	if err := os.Remove(d.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return listen(d.path)
}

// Release gives the right back. The keeper has detached from the box.
func (d *Door) Release() { d.lock.Close() }
