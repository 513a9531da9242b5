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

// func faultsOnlyPC() uintptr
TEXT ·faultsOnlyPC(SB), NOSPLIT, $0-8
	LEAQ faultsOnly<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// A signal handler, called as handler(DI signal, SI *siginfo, DX *ucontext). It
// passes them unchanged to the runtime's. si_code is the third int of a siginfo.
TEXT faultsOnly<>(SB), NOSPLIT|NOFRAME, $0-0
	CMPL 8(SI), $0
	JLE  sent
	MOVQ ·runtimeHandler(SB), AX
	JMP  AX

sent:
	RET
