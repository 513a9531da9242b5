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

// ShimAsks returns the request of a shim for a call of a program with one argument.
func ShimAsks(name, program, arg string) []byte {
	r := shimRequest{Magic: shimMagic, Args: 1, Name: uint32(len(name)), Program: uint32(len(program)), Listed: uint32(len(arg) + 1), All: uint64(len(arg) + 1)}
	return append(append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r))...), name+program+arg+"\x00"...)
}

// ShimEnds returns what a shim says of the end of a call.
func ShimEnds(how, status uint32) []byte {
	e := shimEnd{How: how, Status: status}
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&e)), unsafe.Sizeof(e))...)
}

// Inert returns the sentence of an answer as a shim prints it.
func Inert(text string) string {
	p := []byte(text)
	inert(p)
	return string(p)
}
