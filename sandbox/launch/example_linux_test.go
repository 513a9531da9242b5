package launch_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/launch"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// testAgent starts this test program as an agent. A server uses OwnAgent.
func testAgent(context.Context) (cmd *exec.Cmd, release func(), err error) {
	cmd = exec.Command("/proc/self/exe", "serve", "--stdio")
	cmd.Env = append(os.Environ(), "WARMBOX_TEST_AGENT=1")
	return cmd, func() {}, nil
}

// Launch starts an agent as a process and returns the stream to it. A sandbox.Box speaks
// the protocol of package wire on that stream.
func ExampleProcess() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	p := &launch.Process{Agent: testAgent, Workspaces: dir}
	stream, err := p.Launch(context.Background(), "b-1", sandbox.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close() // ends the agent and all that it started

	run := wire.ID{1}
	hello, _ := wire.AppendJSON(nil, wire.Hello, wire.ID{}, wire.HelloBody{Env: []string{"PATH=" + os.Getenv("PATH")}})
	start, _ := wire.AppendJSON(hello, wire.Start, run, wire.StartBody{Cmd: "echo hello; exit 3"})
	if _, err := stream.Write(start); err != nil {
		fmt.Println(err)
		return
	}
	r := wire.NewReader(stream, wire.FromAgent)
	for {
		f, err := r.Read()
		if err != nil {
			fmt.Println(err)
			return
		}
		switch f.Kind {
		case wire.Hello, wire.Started:
			fmt.Println(f.Kind)
		case wire.Stdout:
			fmt.Printf("%v %q\n", f.Kind, f.Payload)
		case wire.Exit:
			var exit wire.ExitBody
			err := wire.Decode(f, &exit)
			fmt.Println(f.Kind, exit.Code, err)
			return
		}
	}
	// Output:
	// Hello
	// Started
	// Stdout "hello\n"
	// Exit 3 <nil>
}
