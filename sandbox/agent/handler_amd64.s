//go:build linux

#include "textflag.h"

// func doNothingPC() uintptr
TEXT ·doNothingPC(SB), NOSPLIT, $0-8
	LEAQ doNothing<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// A signal handler. The kernel calls it with the restorer as return address.
TEXT doNothing<>(SB), NOSPLIT|NOFRAME, $0-0
	RET
