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

// canSocket reports whether boxes of a local engine can have sockets of their own
// here.
const canSocket = true

// A listener is a box's own socket on the host, in a directory that the container has
// as a read-only mount. It accepts one connection: of the process whose pid the engine
// reports for the container. Commands in the box have other pids, and the listener
// closes their connections without a byte.
type listener struct {
	dir   string
	lock  *os.File                // of the directory, which is removed with the listener; nil if the directory stays
	found chan io.ReadWriteCloser // receives the one connection

	socket *net.UnixListener
	served sync.WaitGroup

	mu      sync.Mutex
	pid     int    // 0 before expect
	pending []peer // connected before expect
	done    bool   // the one is found, or the listener is closed
}

type peer struct {
	*net.UnixConn
	pid int
}

const (
	// maxPending bounds the pending connections. The agent dials again when its
	// connection was closed.
	maxPending = 64

	// maxSocketPath is what fits the kernel's sockaddr_un, with its final zero.
	maxSocketPath = 107
)

// listen creates the socket of a box: in the directory of its lock, or, without one,
// in a temporary directory. A new box gets a new directory; another has its directory
// mounted.
func (b *box) listen(fresh bool) (s *listener, err error) {
	var dir string
	var lock *os.File
	switch {
	case b.lock == nil:
		dir, lock, err = tempSocketDir()
	case fresh:
		dir, err = b.lock.dir, errors.Join(os.RemoveAll(b.lock.dir), os.Mkdir(b.lock.dir, 0o755))
	default:
		dir = b.lock.dir
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

// tempSocketDir creates a directory and locks it: a sweep removes directories that are
// not locked.
func tempSocketDir() (dir string, lock *os.File, err error) {
	parent, err := socketParent()
	for err == nil {
		if dir, err = os.MkdirTemp(parent, "box"); err != nil {
			break
		}
		if lock, err = lockDir(dir); !errors.Is(err, filelock.ErrHeld) && !errors.Is(err, fs.ErrNotExist) {
			return dir, lock, err
		}
		err = nil // a sweep was faster
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
	if err == nil && !sameFile(f, dir) {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweepSockets removes the directories of processes that were killed before an agent
// connected.
func sweepSockets() (removed []Swept, err error) {
	parent, err := socketParent()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(parent)
	for _, entry := range entries {
		dir := filepath.Join(parent, entry.Name())
		lock, lerr := lockDir(dir)
		if lerr != nil {
			continue // a process uses it
		}
		rerr := os.RemoveAll(dir)
		lock.Close()
		if err = errors.Join(err, rerr); rerr == nil {
			removed = append(removed, Swept{What: "directory", Name: dir, Why: "its server has ended"})
		}
	}
	return removed, err
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
	// The box's user is not ours. Other users cannot get here: the parent is 0700.
	if err := errors.Join(os.Chmod(path, 0o666), os.Chmod(dir, 0o755)); err != nil {
		socket.Close()
		return nil, err
	}
	s := &listener{dir: dir, found: make(chan io.ReadWriteCloser, 1), socket: socket}
	s.served.Go(s.serve)
	return s, nil
}

// socketParent returns a directory that only we can enter and whose name is short
// enough for a socket.
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
		return "", fmt.Errorf("%s must be a directory of this user with mode 0700; another user may have created it: remove it, or set XDG_RUNTIME_DIR", dir)
	}
	return dir, nil
}

func (s *listener) serve() {
	for {
		conn, err := s.socket.AcceptUnix()
		if err != nil {
			return // closed, or out of descriptors: then the launch times out
		}
		s.admit(peer{conn, peerPID(conn)})
	}
}

// peerPID returns the pid of the process that connected, in our pid name space, or -1.
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

// expect sets the pid that the connection must have.
func (s *listener) expect(pid int) {
	s.mu.Lock()
	pending := s.pending
	s.pid, s.pending = pid, nil
	s.mu.Unlock()
	for _, p := range pending {
		s.admit(p)
	}
}

// admit passes on the connection with the expected pid and closes others.
func (s *listener) admit(p peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.done:
		p.Close()
	case s.pid == 0 && len(s.pending) < maxPending:
		s.pending = append(s.pending, p)
	case s.pid != 0 && s.pid == p.pid:
		s.done = true
		s.found <- p.UnixConn
	default:
		p.Close()
	}
}

// Close removes the socket, and its directory if that is temporary. It does not close a
// connection that was received from found.
func (s *listener) Close() error {
	s.socket.Close()
	s.served.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	for _, p := range s.pending {
		p.Close()
	}
	s.pending = nil
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
