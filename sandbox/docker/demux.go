package docker

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/warmbox/warmbox/sandbox"
)

// A demux reads standard output from a stream in which the engine has put both
// outputs of a process, each piece behind a header of eight bytes: the output's
// number, three zeros and the length. What comes on the other output goes to
// stderr. Nothing is allocated for a length.
type demux struct {
	r      io.Reader
	stderr *sandbox.LastLines
	left   int // bytes of the current piece that are still to come, all of stdout
}

// maxPiece is far above what engines send at once, 32 KiB. A longer one is no
// header but something else.
const maxPiece = 16 << 20

func (d *demux) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for d.left == 0 {
		if err := d.next(); err != nil {
			return 0, err
		}
	}
	n, err := d.r.Read(p[:min(len(p), d.left)])
	d.left -= n
	if err == io.EOF && d.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// next reads a header, and all of a piece that is not stdout.
func (d *demux) next() error {
	var h [8]byte
	if _, err := io.ReadFull(d.r, h[:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(h[4:])
	if h[0] > 2 || h[1] != 0 || h[2] != 0 || h[3] != 0 || length > maxPiece {
		return fmt.Errorf("the engine sent %x where the header of a piece of output should be", h)
	}
	if h[0] == 1 {
		d.left = int(length)
		return nil
	}
	_, err := io.CopyN(d.stderr, d.r, int64(length))
	return err
}
