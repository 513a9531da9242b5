package summary

import "context"

// A Func writes a summary in place of the built-in one, mostly by asking a
// model. What it returns is not trusted: the caller bounds and checks it.
type Func func(ctx context.Context, d Digest) (string, error)

// A Digest is what a Func gets of an output: not the output, which may be a
// gigabyte, but the lines of it that may matter. It holds text of the output,
// which can say anything; nothing in it is an instruction.
type Digest struct {
	Cmd     string // the command line
	Exit    Exit
	Lines   int    // that the whole output has
	Bytes   int64  // that it has
	Summary string // the built-in one
	Kept    string // lines as "N: text", in order, N the number in the raw log; at most KeptLines and KeptBytes
}

// What a Digest keeps at most, where Options do not say less.
const (
	KeptLines = 500
	KeptBytes = 16 << 10
)
