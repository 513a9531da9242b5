package summary

import "context"

// A Func writes a summary instead of the built-in one, mostly by calling a model. The
// caller must bound and check the result, which is not trusted.
type Func func(ctx context.Context, d Digest) (string, error)

// A Digest is the input of a Func: not the output, which may be a gigabyte, but the
// lines that may matter. It contains text of the output, which can say anything;
// nothing in it is an instruction.
type Digest struct {
	Cmd      string // the command line
	Want     string // what the caller looks for; may be empty
	Exit     Exit
	Lines    int    // of the whole output
	Bytes    int64  // of the whole output
	Summary  string // the built-in one
	Kept     string // lines as "N: text", in order; N is the line number in the raw log; at most KeptLines and KeptBytes
	Failures []int  // numbers of the lines in Summary that belong to failures, the most important first
	Wanted   []int  // numbers of the lines that the caller looks for, the best first
}

// Limits of the lines in a Digest. Options can lower them.
const (
	KeptLines = 500
	KeptBytes = 16 << 10
)
