//go:build linux

package agent

import (
	"crypto/rand"
	"encoding/binary"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// execKey are two unused arguments of execve by which the filter recognizes the agent's own
// calls. Commands cannot read them: the agent's memory and filter are closed to them, and the
// kernel clears the registers of a new program.
type execKey [2]uint64

func newExecKey() (k execKey) {
	var b [16]byte
	rand.Read(b[:])
	return execKey{binary.NativeEndian.Uint64(b[:]), binary.NativeEndian.Uint64(b[8:])}
}

// address returns the address of the key.
func (k *execKey) address() uintptr { return uintptr(unsafe.Pointer(k)) }

// auditCalls are the calls of one architecture that the filter reports.
type auditCalls struct {
	arch               uint32
	execve, execveat   []uint32
	exitGroup          []uint32
	pointer, smallFrom uint32 // size of a pointer in argv; calls from smallFrom on have pointers of 4 bytes
}

// auditedCalls returns the calls of the processor's own architecture, then those of its 32-bit
// one. It returns nil if the agent does not know the processor.
func auditedCalls() []auditCalls {
	const x32 = 0x40000000
	switch runtime.GOARCH {
	case "amd64":
		return []auditCalls{
			{unix.AUDIT_ARCH_X86_64, []uint32{59, x32 + 520}, []uint32{322, x32 + 545}, []uint32{231, x32 + 231}, 8, x32},
			{unix.AUDIT_ARCH_I386, []uint32{11}, []uint32{358}, []uint32{252}, 4, 0},
		}
	case "arm64":
		return []auditCalls{
			{unix.AUDIT_ARCH_AARCH64, []uint32{221}, []uint32{281}, []uint32{94}, 8, 1 << 31},
			{unix.AUDIT_ARCH_ARM, []uint32{11}, []uint32{387}, []uint32{248}, 4, 0},
		}
	}
	return nil
}

// Offsets in what a filter sees of a call. Both architectures are little-endian.
const (
	dataNr   = 0
	dataArch = 4
	dataArg3 = 16 + 3*8
)

// execFilter returns the filter that reports the calls, except an execve of the processor's
// own architecture with the agent's key.
func execFilter(all []auditCalls, key execKey) []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	result := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	equal := func(k uint32, yes, no int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(yes), Jf: uint8(no), K: k}
	}
	f := []unix.SockFilter{load(dataArch)}
	for i, c := range all {
		calls := append(append(append([]uint32{}, c.execve...), c.execveat...), c.exitGroup...)
		block := []unix.SockFilter{load(dataNr)}
		if i == 0 { // an execve with the key is the agent's own
			const keyed = 2 * 4
			block = append(block, equal(calls[0], 0, keyed+2))
			for n := range 4 {
				half := uint32(key[n/2] >> (32 * (n % 2)))
				block = append(block, load(uint32(dataArg3+4*n)), equal(half, 0, keyed-2*n-1))
			}
			block = append(block, result(unix.SECCOMP_RET_ALLOW), result(unix.SECCOMP_RET_USER_NOTIF))
			calls = calls[1:]
		}
		for n, nr := range calls {
			block = append(block, equal(nr, len(calls)-n, 0))
		}
		block = append(block, result(unix.SECCOMP_RET_ALLOW), result(unix.SECCOMP_RET_USER_NOTIF))
		f = append(append(f, equal(c.arch, 0, len(block))), block...)
	}
	return append(f, result(unix.SECCOMP_RET_ALLOW))
}

// installFilter installs a filter on the calling thread and returns the descriptor of its
// reports. The thread's children inherit the filter. The thread must be locked to the goroutine.
func installFilter(filter []unix.SockFilter) (fd int, err error) {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// A wait for the agent is not interrupted by signals, which would make the kernel report
	// a call twice. Before Linux 5.19 it is.
	for _, more := range []uintptr{unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0} {
		flags := unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW | more
		n, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
		if errno == 0 {
			return int(n), nil
		}
		if err = errno; errno != unix.EINVAL {
			break
		}
	}
	return -1, err
}

// notification is the kernel's struct seccomp_notif: a call that waits for an answer.
type notification struct {
	id    uint64
	tid   uint32
	flags uint32
	nr    uint32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// response is the kernel's struct seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

// receive waits for the next call.
func (n *notification) receive(listener int) error {
	*n = notification{} // the kernel requires zeros
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(n)))
	if errno != 0 {
		return errno
	}
	return nil
}

// proceed lets a call proceed. It reports false if the call does not wait any more.
func proceed(listener int, id uint64) bool {
	a := response{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&a)))
	return errno == 0
}
