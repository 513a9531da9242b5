package server

import (
	"bufio"
	"fmt"
	"io"
)

// maxLine is the longest message that is taken. A command may have a mebibyte,
// which JSON can make six of, and what is given to its standard input more.
const maxLine = 32 << 20

// keepLine is the largest buffer that is kept from one message to the next.
const keepLine = 1 << 20

// lines passes on what a client writes, whole lines only, and refuses those
// that are too long, of which it keeps nothing. mcp-go's own reader would
// collect a line of any length.
type lines struct {
	in    *bufio.Reader
	out   io.Writer         // where a refusal goes
	take  func([]byte) bool // serves a line that mcp-go need not see, and keeps it
	ended func()            // called when nothing more comes
	asker *asker            // to whom an answer may come too late

	line []byte // what was read last
	rest []byte // the part of it that is to be passed on
}

func newLines(in io.Reader, out *output, take func([]byte) bool, ended func()) *lines {
	return &lines{in: bufio.NewReaderSize(in, 64<<10), out: out, take: take, ended: ended, asker: out.asker}
}

func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if err := l.next(); err != nil {
			l.ended()
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next reads one line.
func (l *lines) next() error {
	if cap(l.line) > keepLine {
		l.line = nil
	}
	l.line = l.line[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return err // of a line without an end nothing is known
		}
		if len(l.line)+len(part) > maxLine {
			l.line = nil
			return l.refuse(err == nil)
		}
		l.line = append(l.line, part...)
		if err == nil {
			switch {
			case l.asker.late(l.line):
			case l.take(l.line):
				l.line = nil
			default:
				l.rest = l.line
			}
			return nil
		}
	}
}

// refuse skips to the end of the line and answers it. There is no telling which
// request it was: its id may stand behind all that was skipped.
func (l *lines) refuse(whole bool) error {
	for !whole {
		_, err := l.in.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return err
		}
		whole = err == nil
	}
	_, err := fmt.Fprintf(l.out, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":`+
		`"a message of more than %d MiB was skipped; write large input to a file in the box, piece by piece"}}`+"\n", maxLine>>20)
	return err
}
