//go:build linux

#include "textflag.h"

// func doNothingPC() uintptr
TEXT ·doNothingPC(SB), NOSPLIT, $0-8
	MOVD $doNothing<>(SB), R0
	MOVD R0, ret+0(FP)
	RET

// A signal handler. The kernel calls it with the restorer as return address.
TEXT doNothing<>(SB), NOSPLIT|NOFRAME, $0-0
	RET

// func faultsOnlyPC() uintptr
TEXT ·faultsOnlyPC(SB), NOSPLIT, $0-8
	MOVD $faultsOnly<>(SB), R0
	MOVD R0, ret+0(FP)
	RET

// A signal handler, called as handler(R0 signal, R1 *siginfo, R2 *ucontext), with
// the return address in R30. It passes them unchanged to the runtime's. si_code is the
// third int of a siginfo.
TEXT faultsOnly<>(SB), NOSPLIT|NOFRAME, $0-0
	MOVW 8(R1), R3
	CMPW $0, R3
	BLE  sent
	MOVD ·runtimeHandler(SB), R3
	B    (R3)

sent:
	RET
