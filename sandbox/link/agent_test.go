package link_test

import (
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/link"
	"github.com/warmbox/warmbox/sandbox/wire"
)

func TestMain(m *testing.M) { boxtest.Main(m) }

// A link to a real agent carries a command and its output, and takes the agent along
// when it is closed.
func TestLinkToRealAgent(t *testing.T) {
	stream, err := boxtest.Agent(t).Launch(t.Context(), "b-test", sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	l := link.New(stream, link.Config{})
	place := stream.(sandbox.Placed).Place()
	answer, err := l.Greet(t.Context(), link.Greeting{
		Hello: wire.HelloBody{Dir: place.Dir, Env: place.Env},
		Rest:  func(wire.HelloBody, *wire.Reader) error { return nil },
	})
	if err != nil || answer.Shell == "" {
		t.Fatalf("%+v, %v", answer, err)
	}
	var printed []byte
	over := make(chan wire.ExitBody, 1)
	served := make(chan link.End)
	go func() {
		served <- l.Serve(func(f wire.Frame) error {
			switch f.Kind {
			case wire.Stdout:
				printed = append(printed, f.Payload...)
			case wire.Exit:
				var body wire.ExitBody
				if err := wire.Decode(f, &body); err != nil {
					return err
				}
				over <- body
			}
			return nil
		})
	}()
	if err := l.SendJSON(wire.Start, wire.ID{1}, wire.StartBody{Cmd: "echo hello; exit 3"}); err != nil {
		t.Fatal(err)
	}
	if body := <-over; body.Code != 3 {
		t.Errorf("%+v", body)
	}
	l.Close(nil)
	if end := <-served; end.How != link.Closed || string(printed) != "hello\n" {
		t.Errorf("%+v, %q", end, printed)
	}
}
