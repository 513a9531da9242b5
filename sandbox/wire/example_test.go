package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// A host sends frames and the agent reads them. Read returns io.EOF when the stream
// ends between two frames.
func Example() {
	run := wire.ID{1} // a host draws 16 random bytes

	var stream bytes.Buffer
	start, err := wire.AppendJSON(nil, wire.Start, run, wire.StartBody{Cmd: "cat", Stdin: true})
	if err != nil {
		fmt.Println(err)
	}
	stream.Write(start)
	stream.Write(wire.Append(nil, wire.Stdin, run, []byte("hello")))
	stream.Write(wire.Append(nil, wire.StdinClose, run, nil))

	r := wire.NewReader(&stream, wire.FromHost)
	for {
		f, err := r.Read()
		if err == io.EOF {
			fmt.Println("end of the stream")
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		switch f.Kind {
		case wire.Start:
			var body wire.StartBody
			err := wire.Decode(f, &body)
			fmt.Println(f.Kind, body.Cmd, err)
		default:
			fmt.Printf("%v %q\n", f.Kind, f.Payload)
		}
	}
	// Output:
	// Start cat <nil>
	// Stdin "hello"
	// StdinClose ""
	// end of the stream
}

// A violation is a frame that its sender may not send. A Reader refuses it before it
// allocates memory for the payload; the stream cannot be used any more.
func ExampleReader_Read_violation() {
	run := wire.ID{1}
	tooLong := make([]byte, wire.HeaderLen)
	wire.Put(tooLong, wire.Stdout, run, 1<<30)

	for _, stream := range [][]byte{
		[]byte("HTTP/1.1 400 Bad Request"),
		wire.Append(nil, wire.Start, run, []byte("{}")), // an agent starts nothing
		tooLong,
	} {
		_, err := wire.NewReader(bytes.NewReader(stream), wire.FromAgent).Read()
		fmt.Println(errors.Is(err, wire.ErrViolation), err)
	}
	// Output:
	// true protocol violation: not a frame: the stream has something else in the place of a header
	// true protocol violation: unexpected kind 0x02
	// true protocol violation: Stdout payload of 1073741824 bytes is longer than the limit of 65536
}
