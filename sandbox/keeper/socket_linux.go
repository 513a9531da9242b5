package keeper

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// The path of a socket has at most 107 bytes, and a directory of state may be longer. So
// both sides name the socket by a descriptor of its directory.

func dial(path string) (conn net.Conn, err error) {
	err = inDir(path, func(short string) error {
		conn, err = net.Dial("unix", short)
		return err
	})
	return conn, err
}

func listen(path string) (net.Listener, error) {
	var l *net.UnixListener
	err := inDir(path, func(short string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the descriptor in its name is closed
	return &socket{Listener: l, path: path}, os.Chmod(path, 0o600)
}

// A socket is a listener that removes its file, once: later the file is the next keeper's.
type socket struct {
	net.Listener
	path   string
	remove sync.Once
}

func (s *socket) Close() error {
	s.remove.Do(func() { os.Remove(s.path) })
	return s.Listener.Close()
}

func inDir(path string, do func(short string) error) error {
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

// checkPeer refuses other users, who cannot enter the directory anyway.
func checkPeer(conn net.Conn) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return e
	}
	if err == nil && int(cred.Uid) != os.Getuid() {
		err = fmt.Errorf("process %d belongs to user %d", cred.Pid, cred.Uid)
	}
	return err
}
