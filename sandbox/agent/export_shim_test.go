//go:build linux

package agent

import "unsafe"

// ParseShim returns the arguments in a request of a shim, and whether they are all of them.
func ParseShim(packet []byte) (args []string, whole, ok bool) {
	c, ok := parseShim(packet)
	return c.args, !c.cut && len(c.args) == int(c.Args) && uint64(c.Listed) == c.All, ok
}

// ShimAllowed returns an answer that allows a call.
func ShimAllowed() []byte {
	a := shimAnswer{Verdict: shimAllow}
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&a)), unsafe.Sizeof(a))...)
}
