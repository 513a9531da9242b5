// Package keeper shares one box between several programs of a user. An agent has one host,
// so one process, the keeper, holds the box and listens on a unix socket; each other
// program is a client of it and runs commands in the box through the socket.
//
// Client and keeper exchange one message each and then speak package wire: the client as a
// host, the keeper in the place of an agent. Only runs with a window are served. What a
// client started ends with its connection, and nothing else does.
//
// Both sides are programs of ours that run as one user. The keeper refuses other users, and
// still checks each frame: a client that breaks the protocol loses its connection. The
// caller chooses a directory for the socket that only the user can enter, starts the box,
// and ends it or detaches from it afterwards.
package keeper

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

const (
	// greetTimeout is how long a client may take for its first message.
	greetTimeout = 10 * time.Second

	// leaveTimeout is how long a client may take to hear that the box is gone.
	leaveTimeout = time.Second

	// maxMessage bounds the first messages.
	maxMessage = 1 << 20
)

// A Keeper serves a box. It is used like http.Server: set its fields, then call Serve.
type Keeper struct {
	Box      *sandbox.Box
	Settings map[string]string // how the box was started; a client that wants other ones is refused
	Linger   time.Duration     // how long it goes on without a client
	Logger   *slog.Logger

	mu      sync.Mutex
	clients int
	idle    *time.Timer
	ended   bool // no more clients are accepted

	serving sync.WaitGroup
}

// A request is a client's first message.
type request struct {
	Settings map[string]string `json:"settings"`
}

// An answer is the keeper's.
type answer struct {
	Place *sandbox.Place `json:"place,omitempty"`
	Box   string         `json:"box,omitempty"`
	Pid   int            `json:"pid,omitempty"`   // of the keeper
	Error string         `json:"error,omitempty"` // why the client is refused
	Hint  string         `json:"hint,omitempty"`
}

// Serve serves clients until there was none for Linger, the box is gone, or ctx ends. When
// it returns, all that clients started has ended or is being killed.
func (k *Keeper) Serve(ctx context.Context, l net.Listener) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { k.end(l) })()
	go func() {
		select {
		case <-k.Box.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	k.mu.Lock()
	k.idle = time.AfterFunc(k.Linger, func() { k.endIdle(l) })
	k.mu.Unlock()
	for {
		conn, err := l.Accept()
		if err != nil {
			break
		}
		if !k.begin() {
			conn.Close()
			continue
		}
		k.serving.Go(func() {
			defer k.leave()
			k.serve(ctx, conn)
		})
	}
	cancel()
	k.serving.Wait()
}

// begin counts a client, unless the keeper is ending.
func (k *Keeper) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return false
	}
	k.clients++
	k.idle.Stop()
	return true
}

func (k *Keeper) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clients--; k.clients == 0 {
		k.idle.Reset(k.Linger)
	}
}

// endIdle ends the keeper if it has no client. A client that comes now finds no keeper, and
// starts the next one.
func (k *Keeper) endIdle(l net.Listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clients == 0 {
		k.ended = true
		l.Close()
	}
}

func (k *Keeper) end(l net.Listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	l.Close()
}

// serve serves one client until its connection ends.
func (k *Keeper) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := k.admit(conn); err != nil {
		k.logger().Warn("client refused", "err", err)
		return
	}
	s := newSession(k, conn)
	stop()
	defer context.AfterFunc(ctx, func() { s.leave(nil) })()
	if err := s.serve(); err != io.EOF && ctx.Err() == nil {
		k.logger().Warn("client lost", "err", err)
	}
	s.end()
}

// admit exchanges the first messages.
func (k *Keeper) admit(conn net.Conn) error {
	conn.SetDeadline(time.Now().Add(greetTimeout))
	defer conn.SetDeadline(time.Time{})
	if err := checkPeer(conn); err != nil {
		return err
	}
	var r request
	if err := receive(conn, &r); err != nil {
		return err
	}
	if what := Differences(k.Settings, r.Settings); what != "" {
		send(conn, answer{
			Error: fmt.Sprintf("process %d holds this box for other programs, with other settings: %s", os.Getpid(), what),
			Hint:  "Use the same settings, or another name, or try again some seconds after those programs have ended.",
		})
		return errors.New("it wants other settings: " + what)
	}
	place := k.Box.Place
	place.Backend, place.Heartbeat, place.Shown = Backend, false, nil
	return send(conn, answer{Place: &place, Box: k.Box.ID, Pid: os.Getpid()})
}

func (k *Keeper) logger() *slog.Logger {
	if k.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return k.Logger
}

// Variable is the beginning of the name of a setting whose value is not shown.
const Variable = "variable "

// Differences lists the settings that a client wants otherwise, "" for none.
func Differences(has, wants map[string]string) string {
	names := maps.Clone(has)
	maps.Copy(names, wants)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch ours, theirs := has[name], wants[name]; {
		case ours == theirs:
		case strings.HasPrefix(name, Variable):
			list = append(list, "the value of the "+name)
		default:
			list = append(list, fmt.Sprintf("%s is %q there and %q here", name, ours, theirs))
		}
	}
	return strings.Join(list, ", ")
}

// send writes a message: its length, then JSON.
func send(w io.Writer, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// receive reads a message, and nothing behind it.
func receive(r io.Reader, message any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxMessage {
		return fmt.Errorf("a message of %d bytes, at most %d are allowed", n, maxMessage)
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(text) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, message)
}
