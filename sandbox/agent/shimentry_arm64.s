//go:build linux

#include "textflag.h"

// The entry of the program, before the Go runtime's own. The kernel calls it with RSP at
// argc. Compiled Go code compares RSP with the bound of its goroutine, g: of one that is
// all zero every stack is large enough.
TEXT _rt0_warmbox(SB), NOSPLIT|NOFRAME, $0
	MOVD RSP, R0
	MOVD R0, ·startStack(SB)
	MOVD $·startG(SB), g
	SUB  $32, RSP
	BL   ·beforeRuntime(SB)
	MOVD ·startStack(SB), R0
	MOVD R0, RSP
	B    _rt0_arm64_linux(SB)
