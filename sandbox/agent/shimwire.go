//go:build linux

package agent

import (
	"strings"
	"unsafe"
)

// A shim and the agent talk over a socket that keeps packets apart, in the byte order of
// the machine that both run on:
//
//	shim → agent   shimRequest, with name, program and arguments behind it
//	agent → shim   shimAnswer, with the sentence of a denial behind it
//	shim → agent   shimEnd, once the program has ended
//
// The agent closes the connection when it has recorded the end, and the shim waits for
// that: what a run called is then recorded before its shell goes on.

const (
	shimDirPrefix = "warmbox-shims-"   // begins the name of the directory
	shimBin       = "/bin"             // what PATH has: a link for each name
	shimSocket    = "/socket"          // a link whose text is the name of the agent's abstract socket, after an @
	shimProgram   = "/agent"           // the agent's program: a link to it, or a copy
	shimTarget    = ".." + shimProgram // where the link of each name leads to

	// maxShimPath bounds the name and the program of a request, like the kernel.
	maxShimPath = 4096

	// maxShimArgs bounds the arguments of a request, in bytes with a NUL behind each. The
	// program gets all, and a request says how many bytes there are.
	maxShimArgs = 64 << 10

	shimMagic = 0x5A1B0001
)

// shimRequest is what a shim asks. The lengths are of the texts behind it, in this order.
type shimRequest struct {
	Magic   uint32
	Args    uint32 // number of arguments
	Name    uint32
	Program uint32 // the file to run; 0 if there is none in PATH
	Listed  uint32 // of the arguments, at most maxShimArgs
	All     uint64 // of the arguments before the bound
	Streams [3]shimStream
}

// shimStream is what fstat says of one of the first three descriptors.
type shimStream struct {
	Dev, Ino uint64
	Mode     uint32 // 0: it is closed
	_        uint32
}

const (
	shimAllow = 1
	shimDeny  = 2
)

// shimAnswer is what the agent decides.
type shimAnswer struct {
	Verdict       uint32
	Text          uint32 // length of the sentence
	TimeoutMillis int64  // 0: none
	Bytes         int64  // how much of its output is passed on; 0: all
	Lines         int64
}

// The ways in which a call ended.
const (
	shimExited   = 1 // Status is the kernel's
	shimTimedOut = 2 // likewise, after its time limit
	shimMissing  = 3 // there is no such program
	shimDenied   = 4
)

// shimEnd says how a call ended.
type shimEnd struct {
	How    uint32
	Status uint32
	Cut    uint32 // 1: not all of its output was passed on
}

// valid reports whether a call can have ended so: whoever connects to the socket can say
// anything. The status is one that wait4 can give of a process that has ended.
func (e shimEnd) valid() bool {
	exited, signaled := e.Status&^0xff00 == 0, e.Status&^0xff == 0 && e.Status&0x7f >= 1 && e.Status&0x7f <= 64
	return e.How >= shimExited && e.How <= shimDenied && (exited || signaled)
}

const (
	shimHeader  = int(unsafe.Sizeof(shimRequest{}))
	maxShimCall = shimHeader + 2*maxShimPath + maxShimArgs
)

// shimOf returns the directory and the name of a shim by the path of its link.
func shimOf(path string) (dir, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || !strings.HasSuffix(path[:i], shimBin) {
		return "", "", false
	}
	dir, name = path[:i-len(shimBin)], path[i+1:]
	base := dir[strings.LastIndexByte(dir, '/')+1:]
	return dir, name, name != "" && strings.HasPrefix(base, shimDirPrefix)
}
