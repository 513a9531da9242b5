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

// Reopen goes on with the log of a run that outlived the process which wrote it.
// Stats of what it returns say how much of the run is known, and so which byte is
// wanted next: all that was ever written to the log is there, and the gaps in it
// are counted. Where this fails nothing has been changed that a reader could see.
func (s *Store) Reopen(exec string) (*Log, error) {
	l, err := s.reopen(exec)
	if err != nil {
		return nil, fmt.Errorf("go on with the log of %.140q: %w", exec, err)
	}
	return l, nil
}

func (s *Store) reopen(exec string) (*Log, error) {
	if !isName(exec) {
		return nil, fs.ErrNotExist
	}
	if s.Written(exec) {
		return nil, errors.New("somebody writes it")
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
	claim(index)
	l := &Log{store: s, exec: exec, path: file.Name(), file: file, logger: s.logger().With("exec", exec)}
	l.index.file = index
	if err := l.restore(); err != nil {
		file.Close()
		index.Close()
		return nil, err
	}
	s.begin(exec, l)
	return l, nil
}

// appendTo opens a file that is there and is one.
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

// restore brings the log to where its writer left it.
func (l *Log) restore() error {
	x, whole, err := readIndex(l.index.file)
	if err != nil {
		return fmt.Errorf("its index: %w", err)
	}
	if x.Totals != nil {
		return errors.New("it is over")
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	size, told := info.Size(), x.told()
	if size < told {
		return fmt.Errorf("it has %d bytes, and its index tells of %d", size, told)
	}
	// What was not written to its end would make the next record unreadable.
	if err := l.index.file.Truncate(whole); err != nil {
		return err
	}
	l.start = x.Start
	l.index.fine, l.index.ended = int(whole), x.End != nil
	l.stats = Stats{Bytes: size, Kept: size, Lines: x.feeds()}
	for _, g := range x.Gaps {
		l.skip(g)
	}
	return l.tellRest(told, size)
}

// tellRest tells the index of the bytes that it was behind. Whose they are died
// with their writer.
func (l *Log) tellRest(from, size int64) error {
	buf := make([]byte, spanBytes)
	for from < size {
		n, err := l.file.ReadAt(buf[:min(size-from, spanBytes)], from)
		if n == 0 {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		l.stats.Lines += int64(bytes.Count(buf[:n], lineFeed))
		l.midway = buf[n-1] != '\n'
		l.index.span = Span{Stream: Mixed, Len: int64(n), Feeds: int64(bytes.Count(buf[:n], lineFeed)), At: time.Since(l.start)}
		l.index.endSpan()
		from += int64(n)
	}
	if size > 0 {
		if _, err := l.file.ReadAt(buf[:1], size-1); err != nil {
			return err
		}
		l.midway = buf[0] != '\n'
	}
	return l.index.write()
}

// Skip notes that the next byte which Write gets is number at of the run's output,
// with so many line feeds before it: what is between the last one and it is lost,
// for a reason that readers are told. It reports whether that can be.
func (l *Log) Skip(at, feeds int64, reason string) bool {
	l.disk.Lock()
	defer l.disk.Unlock()
	l.mu.Lock()
	g := Gap{Off: l.stats.Kept, Bytes: at - l.stats.Bytes, Lines: feeds - l.stats.Lines, Reason: clip(reason, maxText)}
	l.mu.Unlock()
	if l.closed || !g.possible() {
		return false
	}
	// Before any later byte: where the next one stands is told by the size of the
	// log and its gaps, to whoever opens it again.
	if l.file != nil {
		if err := l.index.gap(g); err != nil {
			l.check(err)
			l.giveUp(err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skip(g)
	l.tell()
	return true
}

// skip counts a gap. The caller holds l.mu, or nobody else knows the log.
func (l *Log) skip(g Gap) {
	l.stats.Bytes += g.Bytes
	l.stats.Lines += g.Lines
	l.because(g.Reason)
}

// because adds a reason for which the log is not complete. The caller holds l.mu.
func (l *Log) because(reason string) {
	switch l.stats.Reason {
	case "", reason:
		l.stats.Reason = reason
	default:
		l.stats.Reason = clip(l.stats.Reason+"; "+reason, maxText)
	}
}

// Leave lets go of a log whose run goes on, for Reopen. Nothing more is written,
// and nothing says that it is over.
func (l *Log) Leave() {
	l.disk.Lock()
	defer l.disk.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.file != nil {
		l.file.Close()
	}
	l.check(l.index.leave())
	l.store.end(l.exec, l)
}
