//go:build linux

#include "textflag.h"

#define ARCH_SET_FS 0x1002
#define SYS_arch_prctl 158

// The entry of the program, before the Go runtime's own. The kernel calls it with SP at
// argc. Compiled Go code finds its goroutine through FS, and compares SP with the
// goroutine's bound: of a g that is all zero every stack is large enough. The runtime
// sets FS again.
TEXT _rt0_warmbox(SB), NOSPLIT|NOFRAME, $0
	MOVQ SP, ·startStack(SB)
	LEAQ ·startG(SB), AX
	MOVQ AX, ·startTLS(SB)
	LEAQ ·startTLS(SB), SI
	ADDQ $8, SI // -8(FS) is the slot of g
	MOVQ $ARCH_SET_FS, DI
	MOVQ $SYS_arch_prctl, AX
	SYSCALL
	ANDQ $~15, SP
	CALL ·beforeRuntime(SB)
	MOVQ ·startStack(SB), SP
	JMP  _rt0_amd64_linux(SB)
