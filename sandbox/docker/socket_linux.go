package docker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/filelock"
)

// A listener is a box's own socket on the host, in a directory of its own that
// the container gets as a read-only mount. It takes one connection, that of a
// process with the pid which the engine says the container has: commands in the
// box have other ones, and their connections are closed without a byte.
type listener struct {
	dir   string
	lock  *os.File                // of the directory, which goes with the listener; nil if that stays
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

// listen makes the socket of a box, in the directory of its claim, or where it
// has none in one that goes with the listener. A fresh one is made anew; another
// is that which the box has mounted.
func (c *claim) listen(fresh bool) (s *listener, err error) {
	var dir string
	var lock *os.File
	switch {
	case c == nil:
		dir, lock, err = passingDir()
	case fresh:
		dir, err = c.dir, errors.Join(os.RemoveAll(c.dir), os.Mkdir(c.dir, 0o755))
	default:
		dir = c.dir
	}
	if err != nil {
		return nil, fmt.Errorf("make a directory for the box's socket: %w", err)
	}
	s, err = listenIn(dir)
	if err != nil {
		if lock != nil {
			os.RemoveAll(dir)
			lock.Close()
		}
		return nil, fmt.Errorf("listen on the box's socket: %w", err)
	}
	s.lock = lock
	return s, nil
}

// passingDir makes a directory that is locked for as long as somebody needs it.
func passingDir() (dir string, lock *os.File, err error) {
	parent, err := socketParent()
	for err == nil {
		if dir, err = os.MkdirTemp(parent, "box"); err != nil {
			break
		}
		if lock, err = lockDir(dir); !errors.Is(err, filelock.ErrHeld) && !errors.Is(err, fs.ErrNotExist) {
			return dir, lock, err
		}
		err = nil // a sweep was quicker
	}
	return "", nil, err
}

// lockDir takes the lock of a directory.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|filelock.NoFollow|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	err = filelock.Try(f)
	if err == nil && !still(f, dir) {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweepSockets removes the directories of sockets whose programs ended before
// an agent came.
func sweepSockets() (took []Swept, err error) {
	parent, err := socketParent()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(parent)
	for _, entry := range entries {
		dir := filepath.Join(parent, entry.Name())
		lock, lerr := lockDir(dir)
		if lerr != nil {
			continue // somebody needs it
		}
		rerr := os.RemoveAll(dir)
		lock.Close()
		if err = errors.Join(err, rerr); rerr == nil {
			took = append(took, Swept{What: "directory", Name: dir, Why: "its program has ended"})
		}
	}
	return took, err
}

func listenIn(dir string) (*listener, error) {
	path := filepath.Join(dir, socketName)
	at, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	name := path
	if len(path) > maxSocketPath {
		name = fmt.Sprintf("/proc/self/fd/%d/%s", at.Fd(), socketName)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	socket.SetUnlinkOnClose(false) // that name may mean another directory by then
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

// Close removes the socket, and its directory unless that is a claim's. It leaves
// alone a connection that was taken from found.
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
	if s.lock == nil {
		return os.RemoveAll(filepath.Join(s.dir, socketName))
	}
	defer s.lock.Close()
	return os.RemoveAll(s.dir)
}

// canSocket reports whether boxes of a local engine may have sockets of their
// own here.
const canSocket = true
