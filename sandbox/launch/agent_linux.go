package launch

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/agentbin"
)

// ownProgram returns the agent for this machine. It keeps it for the next box.
var ownProgram = sync.OnceValues(func() ([]byte, error) { return agentbin.For(runtime.GOARCH) })

// OwnAgent returns the command that starts this program's own agent. The agent runs from
// a file in memory, which is freed with its last process.
func OwnAgent(ctx context.Context) (cmd *exec.Cmd, release func(), err error) {
	if err := agentbin.Ensure(ctx, runtime.GOARCH); err != nil {
		return nil, nil, err
	}
	program, err := ownProgram()
	if err != nil {
		return nil, nil, err
	}
	fd, err := unix.MemfdCreate("warmbox-agent", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), "warmbox-agent")
	if _, err := f.Write(program); err != nil {
		f.Close()
		return nil, nil, err
	}
	cmd = exec.Command("/proc/self/fd/3", "serve", "--stdio")
	cmd.Args[0] = "warmbox-agent"
	cmd.ExtraFiles = []*os.File{f} // descriptor 3 of the child
	return cmd, func() { f.Close() }, nil
}

// ownSession starts the agent in its own session, so that ^C in a terminal does not reach
// it: the agent ends with its server.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
