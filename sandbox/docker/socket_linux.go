package docker

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A listener is a box's own socket on the host, in a directory of its own that
// the container gets as a read-only mount. It takes one connection, that of a
// process with the pid which the engine says the container has: commands in the
// box have other ones, and their connections are closed without a byte.
type listener struct {
	dir   string
	found chan io.ReadWriteCloser // gets the one connection

	socket *net.UnixListener
	served sync.WaitGroup

	mu   sync.Mutex
	pid  int    // 0 until the engine told it
	held []peer // came before that
	done bool   // the one is found, or nobody wants it any more
}

type peer struct {
	*net.UnixConn
	pid int
}

// maxHeld bounds the connections that wait for the engine's word. The agent
// dials again when it was turned away.
const maxHeld = 64

// maxSocketPath is what fits the kernel's sockaddr_un, with its final zero.
const maxSocketPath = 107

// listen makes the directory and the socket in it.
func listen() (*listener, error) {
	parent, err := socketParent()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "box")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the box's socket: %w", err)
	}
	s, err := listenIn(dir)
	if err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("listen on the box's socket: %w", err)
	}
	return s, nil
}

func listenIn(dir string) (*listener, error) {
	path := filepath.Join(dir, socketName)
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("%s is longer than the %d bytes that a socket's path may have; set XDG_RUNTIME_DIR to a shorter directory", path, maxSocketPath)
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// The box's user is not ours. Others cannot get here: the parent is 0700.
	if err := errors.Join(os.Chmod(path, 0o666), os.Chmod(dir, 0o755)); err != nil {
		socket.Close()
		return nil, err
	}
	s := &listener{dir: dir, found: make(chan io.ReadWriteCloser, 1), socket: socket}
	s.served.Go(s.serve)
	return s, nil
}

// socketParent returns a directory that only we can enter and whose name is
// short enough.
func socketParent() (string, error) {
	dir := filepath.Join("/tmp", "warmbox-"+strconv.Itoa(os.Getuid()))
	if run := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) && len(run) < maxSocketPath-len("/warmbox/box0123456789/"+socketName) {
		if info, err := os.Stat(run); err == nil && info.IsDir() {
			dir = filepath.Join(run, "warmbox")
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != os.Getuid() || info.Mode().Perm() != 0o700 {
		return "", fmt.Errorf("%s must be a directory of our own with mode 0700: is somebody in our way? remove it, or set XDG_RUNTIME_DIR", dir)
	}
	return dir, nil
}

func (s *listener) serve() {
	for {
		conn, err := s.socket.AcceptUnix()
		if err != nil {
			return // closed, or out of descriptors: then nobody comes in time
		}
		s.judge(peer{conn, peerPID(conn)})
	}
}

// peerPID returns the pid of the process that connected, as we see it, or -1.
func peerPID(conn *net.UnixConn) int {
	pid := -1
	if raw, err := conn.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				pid = int(cred.Pid)
			}
		})
	}
	return pid
}

// expect says which pid the connection must have.
func (s *listener) expect(pid int) {
	s.mu.Lock()
	held := s.held
	s.pid, s.held = pid, nil
	s.mu.Unlock()
	for _, p := range held {
		s.judge(p)
	}
}

func (s *listener) judge(p peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.done:
		p.Close()
	case s.pid == 0 && len(s.held) < maxHeld:
		s.held = append(s.held, p)
	case s.pid != 0 && s.pid == p.pid:
		s.done = true
		s.found <- p.UnixConn
	default:
		p.Close()
	}
}

// Close removes the socket and its directory. It leaves alone a connection that
// was taken from found.
func (s *listener) Close() error {
	s.socket.Close()
	s.served.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	for _, p := range s.held {
		p.Close()
	}
	s.held = nil
	select {
	case conn := <-s.found:
		conn.Close()
	default:
	}
	return os.RemoveAll(s.dir)
}

// canSocket reports whether boxes of a local engine may have sockets of their
// own here.
const canSocket = true
