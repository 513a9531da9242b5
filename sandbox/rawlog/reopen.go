package rawlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Reopen continues the log of a run that outlived the process which wrote it. The
// Stats of the Log count everything that was ever written to it, gaps included, and
// so tell which byte of the run comes next. If Reopen fails, it has changed nothing
// that a reader could see.
func (s *Store) Reopen(exec string) (*Log, error) {
	l, err := s.reopen(exec)
	if err != nil {
		return nil, fmt.Errorf("reopen the log of %.140q: %w", exec, err)
	}
	return l, nil
}

func (s *Store) reopen(exec string) (*Log, error) {
	if !isName(exec) {
		return nil, fs.ErrNotExist
	}
	if s.Written(exec) {
		return nil, errors.New("the log is still being written")
	}
	index, err := appendTo(s.base(exec) + indexExt)
	if err != nil {
		return nil, err
	}
	file, err := appendTo(s.base(exec) + logExt)
	if err != nil {
		index.Close()
		return nil, err
	}
	lock(index)
	l := &Log{store: s, exec: exec, path: file.Name(), file: file, logger: s.logger().With("exec", exec)}
	l.index.file = index
	if err := l.restore(); err != nil {
		file.Close()
		index.Close()
		return nil, err
	}
	s.register(l)
	return l, nil
}

// appendTo opens an existing regular file for reading and appending.
func appendTo(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|noFollow, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	return f, nil
}

// restore sets the state of the log to that of its files.
func (l *Log) restore() error {
	x, whole, err := readIndex(l.index.file)
	if err != nil {
		return fmt.Errorf("read its index: %w", err)
	}
	if x.Totals != nil {
		return errors.New("the run is over")
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	size, covered := info.Size(), x.covered()
	if size < covered {
		return fmt.Errorf("the log has %d bytes, but its index covers %d", size, covered)
	}
	// An incomplete record would make the next one unreadable.
	if err := l.index.file.Truncate(whole); err != nil {
		return err
	}
	l.start = x.Start
	l.index.fine, l.index.ended = int(whole), x.End != nil
	l.stats = Stats{Bytes: size, Kept: size, Lines: x.feeds()}
	for _, g := range x.Gaps {
		l.addGap(g)
	}
	return l.coverRest(covered, size)
}

// coverRest adds the bytes that the index does not cover yet. Their stream is
// unknown, since their writer died before it recorded it.
func (l *Log) coverRest(from, size int64) error {
	buf := make([]byte, spanBytes)
	for from < size {
		n, err := l.file.ReadAt(buf[:min(size-from, spanBytes)], from)
		if n == 0 {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		l.stats.Lines += int64(bytes.Count(buf[:n], lineFeed))
		l.partial = buf[n-1] != '\n'
		l.index.span = Span{Stream: Mixed, Len: int64(n), Feeds: int64(bytes.Count(buf[:n], lineFeed)), At: time.Since(l.start)}
		l.index.endSpan()
		from += int64(n)
	}
	if size > 0 {
		if _, err := l.file.ReadAt(buf[:1], size-1); err != nil {
			return err
		}
		l.partial = buf[0] != '\n'
	}
	return l.index.write()
}
