// Package launch has the Launchers that start an agent as a child process and use its
// standard input and output as the stream.
//
// The command that starts the agent decides what isolates it from the host. The only
// Launcher here, Process, isolates nothing: commands run as the user who runs the server,
// with that user's files and network. It is meant for trials, and for machines that are a
// sandbox already.
//
// The caller must close each stream that Launch returns.
package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/hostpath"
)

// Process launches agents as plain processes of this host.
type Process struct {
	// Agent returns the command that starts an agent on its standard input and output.
	// Launch calls release once the command runs or has failed to start.
	Agent func(ctx context.Context) (cmd *exec.Cmd, release func(), err error)

	// Workspaces is the directory in which a box without a given workspace gets a
	// directory of its own. That directory is removed with the box only if it is empty.
	Workspaces string
}

// Isolates reports false: commands run on the host.
func (p *Process) Isolates() bool { return false }

// Launch starts an agent and returns the stream to it.
func (p *Process) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	workspace, err := p.workspace(id, spec)
	if err != nil {
		return nil, err
	}
	defer workspace.Close()
	dir := workspace.Path
	cmd, release, err := p.Agent(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	cmd.Dir = dir
	c, err := startChild(cmd, sandbox.Place{
		Backend: "process", Path: "pipe", Workspace: dir, Dir: dir, Env: hostEnv(),
		Shown: []sandbox.Shown{{Path: dir, Source: dir, ID: workspace.ID, Main: true}},
		Notes: []string{"no isolation: commands run on this host, as the user who runs warmbox"},
	}, spec.Workspace == "")
	if err != nil {
		return nil, fmt.Errorf("start the agent %s: %w", cmd.Path, err)
	}
	return c, nil
}

// workspace opens the directory of a box. The agent enters it by its path.
func (p *Process) workspace(id string, spec sandbox.Spec) (*hostpath.File, error) {
	if spec.Workspace == "" {
		dir := filepath.Join(p.Workspaces, id)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make a workspace: %w", err)
		}
		return (*hostpath.Guard)(nil).Open(dir, nil)
	}
	// Commands of this backend can write everything that this user can, so no list of
	// what other boxes can write would be complete.
	f, err := spec.Paths.Open(spec.Workspace, func() ([]string, error) { return nil, nil })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sandbox.NoWorkspace(spec.Workspace)
	}
	if refusal, ok := errors.AsType[*hostpath.Refusal](err); ok {
		return nil, sandbox.Errorf(sandbox.InvalidArgument, refusal.Hint, "Cannot use %s as the workspace: %w", spec.Workspace, err)
	}
	return f, err
}

// hostEnv returns the variables of the host that commands need. All others, which may
// hold keys and tokens, are withheld.
func hostEnv() (env []string) {
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// child is a running agent and the stream to it.
type child struct {
	cmd   *exec.Cmd
	in    *os.File          // written to the agent
	out   *os.File          // read from the agent
	last  sandbox.LastLines // the last lines of the agent's stderr
	place sandbox.Place
	own   bool // the workspace was created for the box

	exited  chan struct{} // closed when the agent is reaped
	closing sync.Once
	closed  chan struct{} // closed when Close begins
}

// startChild starts an agent. own means that place.Workspace was created for the box.
func startChild(cmd *exec.Cmd, place sandbox.Place, own bool) (*child, error) {
	c := &child{cmd: cmd, place: place, own: own, exited: make(chan struct{}), closed: make(chan struct{})}
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		stdin.Close()
		in.Close()
		return nil, err
	}
	c.in, c.out = in, out
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, &c.last
	ownSession(cmd)
	err = cmd.Start()
	stdin.Close()
	stdout.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	go func() {
		cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

func (c *child) Place() sandbox.Place { return c.place }

func (c *child) Write(p []byte) (int, error) { return c.in.Write(p) }

// Read reads from the agent. If the agent ends before Close, the error at the end is an
// EndedError.
func (c *child) Read(p []byte) (int, error) {
	n, err := c.out.Read(p)
	if err != io.EOF {
		return n, err
	}
	select {
	case <-c.closed:
		return n, io.EOF
	case <-c.exited:
		return n, &sandbox.EndedError{ExitCode: c.cmd.ProcessState.ExitCode(), Stderr: c.last.String()}
	case <-time.After(closeTimeout):
		return n, io.EOF
	}
}

// closeTimeout is how long an agent may take to end all that it started: its own limit
// for that is 5 s.
const closeTimeout = 7 * time.Second

// Close ends the agent, which ends everything that it started when its input ends.
func (c *child) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		c.in.Close()
		c.awaitExit()
		c.out.Close()
		if c.own {
			os.Remove(c.place.Workspace) // fails unless it is empty
		}
	})
	<-c.exited
	return nil
}

func (c *child) awaitExit() {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-c.exited:
			return
		case <-time.After(closeTimeout):
			c.cmd.Process.Signal(sig)
		}
	}
}
