package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// reportWarm tells what somebody waits for who connects to a server on which a box
// stands ready. Each round has a new server, so that every start is the first.
func reportWarm(ctx context.Context, b *bed, out io.Writer) error {
	var v *visit
	come := func(ctx context.Context) (err error) {
		v, err = b.newVisit(ctx)
		return err
	}
	leave := func(context.Context) error { return v.close() }
	return b.reportTurns(ctx, out, "a box stands ready", "× run", []way{
		{name: "docker run --rm, bash -c true", do: b.docker("run", "--rm", "--network=none", b.image, "bash", "-c", "true")},
		{
			name: "warmbox, start", prepare: come, undo: leave,
			do: func(ctx context.Context) error {
				_, err := v.server.start(ctx)
				return err
			},
		},
		{
			name: "warmbox, the first exec: true", prepare: come, undo: leave,
			do: func(ctx context.Context) error {
				_, err := v.server.exec(ctx, "", "true")
				return err
			},
		},
	})
}

// A visit is a client's to a server of its own.
type visit struct {
	dir    string
	server *server
}

// readyTime bounds how long a box may take to stand.
const readyTime = 30 * time.Second

// newVisit returns when a box stands ready.
func (b *bed) newVisit(ctx context.Context) (v *visit, err error) {
	v = &visit{}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close())
		}
	}()
	if v.dir, err = os.MkdirTemp("", "warmbox-bench-*"); err != nil {
		return v, err
	}
	o, boxes := b.options, &starts{next: b.stderr, seen: make(chan struct{}, 1)}
	o.stderr = boxes
	if v.server, err = newServer(ctx, o, v.dir, o.settings(1)); err != nil {
		return v, err
	}
	if _, err = v.server.session.ListTools(ctx, nil); err != nil { // as every client does
		return v, err
	}
	select {
	case <-boxes.seen:
		return v, nil
	case <-time.After(readyTime):
		return v, fmt.Errorf("no box stands ready within %v of a client's coming (-v shows what the server logs)", readyTime)
	case <-ctx.Done():
		return v, ctx.Err()
	}
}

func (v *visit) close() error {
	var err error
	if v.server != nil {
		err = v.server.close()
	}
	return errors.Join(err, os.RemoveAll(v.dir))
}

// starts reads what a server logs and tells when it says that a box has started.
// A client cannot be told: boxes that stand ready are nobody's.
type starts struct {
	next io.Writer // may be nil
	line []byte
	seen chan struct{} // has a token once one has
}

func (s *starts) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		s.line = append(s.line, line...)
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		if bytes.Contains(s.line, []byte("box started")) {
			select {
			case s.seen <- struct{}{}:
			default:
			}
		}
		s.line = s.line[:0]
	}
	if s.next != nil {
		return s.next.Write(p)
	}
	return len(p), nil
}
