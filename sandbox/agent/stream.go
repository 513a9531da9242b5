//go:build linux

package agent

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Sockets are used through os.File rather than package net, which would double
// the agent: an os.File of a non-blocking socket waits in the same poller.

const (
	// dialPatience is how long a host may take to admit its agent. It knows us
	// by our pid, which the engine tells it only when we run already.
	dialPatience = 5 * time.Second
	dialPause    = 5 * time.Millisecond
)

// dialAndServe dials the host until it speaks: a stranger may have filled its
// backlog, and before it knows our pid it may take us for one.
func (a *Agent) dialAndServe(path string) error {
	deadline := time.Now().Add(dialPatience)
	for {
		conn, err := dialUnix(path)
		if err == nil {
			err = a.serve(conn)
			if !errors.Is(err, errNoHello) {
				return err
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("dial the host at %s: %w", path, err)
		}
		time.Sleep(dialPause)
	}
}

func dialUnix(name string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// Blocking: a full backlog makes us wait rather than fail.
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name), nil
}

// acceptPeer listens and returns the connection of a process with the given
// user id. Commands have another one, so they are all turned away, at once and
// without a byte. The listener closes when our peer is there.
func acceptPeer(name string, uid int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", name, err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", name, err)
	}
	if err := unix.Listen(fd, 64); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", name, err)
	}
	for {
		conn, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err == unix.EINTR || err == unix.ECONNABORTED {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("accept on %s: %w", name, err)
		}
		cred, err := unix.GetsockoptUcred(conn, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil && int(cred.Uid) == uid {
			return os.NewFile(uintptr(conn), name), nil
		}
		unix.Close(conn)
	}
}

// relay joins stdio to the agent that listens in the same box.
func relay(args []string) error {
	if len(args) == 0 || !strings.HasPrefix(args[0], "@") {
		return errors.New(usage)
	}
	fs := flag.NewFlagSet("dial", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	pid := fs.Int("pid", 1, "")
	if err := fs.Parse(args[1:]); err != nil || fs.NArg() > 0 {
		return errors.New(usage)
	}
	conn, err := dialUnix(args[0])
	if err != nil {
		return fmt.Errorf("dial the agent at %s: %w", args[0], err)
	}
	cred, err := peer(conn)
	if err != nil {
		return fmt.Errorf("ask who listens at %s: %w", args[0], err)
	}
	if int(cred.Pid) != *pid {
		return fmt.Errorf("%s belongs to process %d, not to the agent", args[0], cred.Pid)
	}
	return join(conn, os.Stdin, os.Stdout)
}

func peer(conn *os.File) (cred *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil {
		return nil, e
	}
	return cred, err
}

// join copies both ways until the agent hangs up. The end of in is passed on,
// and the agent hangs up then.
func join(conn *os.File, in io.Reader, out io.Writer) error {
	go func() {
		io.Copy(conn, in)
		if raw, err := conn.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
		}
	}()
	_, err := io.Copy(out, conn)
	return err
}

// stdioStream is standard input and output as one stream, out of reach for
// commands, whose own are never ours.
func stdioStream() io.ReadWriter {
	return struct {
		io.Reader
		io.Writer
	}{pollable(0, "stdin"), pollable(1, "stdout")}
}

// pollable moves a descriptor out of the way and into the poller, so that
// waiting for it holds no thread.
func pollable(fd int, name string) *os.File {
	if dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err == nil {
		fd = dup
	}
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}
