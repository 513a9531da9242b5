//go:build linux

package agent

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// ttyBuffer is the most unread output of a terminal that the kernel buffers. It does not
// report the actual amount.
const ttyBuffer = 128 << 10

// openTerminal opens a terminal. The agent keeps the master, which uses the poller; the
// command gets the slave, which blocks as programs expect.
func openTerminal(size wire.Size) (master *os.File, slave int, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, -1, err
	}
	slave, err = openSlave(fd, size)
	if err != nil {
		unix.Close(fd)
		return nil, -1, err
	}
	return os.NewFile(uintptr(fd), "terminal"), slave, nil
}

func openSlave(master int, size wire.Size) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	n, err := unix.IoctlGetUint32(master, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	if err := setSize(master, size); err != nil {
		return -1, err
	}
	slave, err := unix.Open("/dev/pts/"+strconv.Itoa(int(n)), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	// IUTF8 makes erasing remove whole characters. All else works without it.
	if t, err := unix.IoctlGetTermios(slave, unix.TCGETS); err == nil {
		t.Iflag |= unix.IUTF8
		unix.IoctlSetTermios(slave, unix.TCSETS, t)
	}
	return slave, nil
}

func setSize(master int, size wire.Size) error {
	return unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(size.Cols), Row: uint16(size.Rows)})
}

// terminal opens the run's terminal as all three of its descriptors.
func (r *run) terminal(p *program, body wire.StartBody) error {
	if !r.tty {
		return nil
	}
	master, slave, err := openTerminal(*body.TTY)
	if err != nil {
		return err
	}
	p.files = append(p.files, uintptr(slave), uintptr(slave), uintptr(slave))
	out, err := newPump()
	if err == nil {
		r.prints(out)
		err = out.add(wire.Stdout, master, true)
	}
	if err != nil {
		master.Close()
		return err
	}
	// Input has its own descriptor, so that input and output are closed independently.
	// Not in.Fd() and dup: Fd would make the terminal block.
	in, err := duplicate(master)
	if err != nil {
		return err
	}
	r.stdin = newStdin(r, in, wire.StdinWindow)
	return nil
}

func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	if e := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 3) }); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// resize changes the size of the run's terminal. The kernel signals the programs in its
// foreground.
func (r *run) resize(size wire.Size) error {
	if !size.Valid() {
		return wire.Violation("%v to %d columns and %d rows", wire.Resize, size.Cols, size.Rows)
	}
	if !r.tty {
		return wire.Violation("%v of a run without a terminal", wire.Resize)
	}
	if raw, err := r.out.sources[0].file.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { setSize(int(fd), size) }) // fails only if the terminal is closed
	}
	return nil
}
