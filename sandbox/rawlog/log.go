package rawlog

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Stream says where a command printed something. Its value is the letter of
// the index record.
type Stream byte

// The streams. Mixed occurs in a Span only.
const (
	Stdout Stream = 'o'
	Stderr Stream = 'e'
	Mixed  Stream = 'm'
)

// indexDelay is how long the index may be behind the log. A second of a
// server's last words is no loss; a write for every span would be a cost.
const indexDelay = time.Second

// Log takes the output of one run. Its methods may be called from several
// goroutines, but the order of the bytes is the order of the Writes, so there
// should be one that writes.
type Log struct {
	store  *Store
	exec   string
	path   string
	start  time.Time
	logger *slog.Logger

	disk   sync.Mutex // held while writing; guards what follows
	file   *os.File   // nil where no more is kept
	index  index
	timer  *time.Timer // flushes the index; nil where nothing waits
	closed bool
	step   int // bytes kept since the disk was last asked for its room

	// Figures have a lock of their own, so that nobody who asks for them waits
	// for a disk.
	mu     sync.Mutex
	stats  Stats         // Lines counts line feeds here
	midway bool          // the last line has no line feed yet
	news   chan struct{} // closed at the next change; nil where nobody waits
}

// Stats are a log's figures so far.
type Stats struct {
	Bytes    int64  // printed in all
	Lines    int64  // printed in all, the last one with or without its line feed
	Kept     int64  // bytes in the file
	Lost     int64  // bytes that are not
	Complete bool   // the file has every byte that was printed
	Reason   string // why it has not, a sentence
}

// End is how a command ended.
type End struct {
	Status string // "exited", "killed", "timeout" …
	Code   int
	Signal string
	Took   time.Duration
}

// Begin writes down what is known of the run, the first that readers find. Of a
// log that Create returned it is done.
func (l *Log) Begin(m Meta) {
	l.disk.Lock()
	defer l.disk.Unlock()
	if m.Start.IsZero() {
		m.Start = time.Now()
	}
	l.start, m.Exec = m.Start, l.exec
	l.check(l.index.begin(m))
}

// Discard deletes a log that was Prepared for a run which then did not begin. It
// stands for Begin, and for Close.
func (l *Log) Discard() {
	if l.file != nil {
		l.file.Close()
	}
	if l.index.file != nil {
		l.index.file.Close()
	}
	l.store.end(l.exec, l)
	l.store.remove(l.exec)
}

// Exec is the name of the log's run.
func (l *Log) Exec() string { return l.exec }

// Path is the log's file, or "" where none could be made.
func (l *Log) Path() string { return l.path }

// Write appends what came from a stream, at once and with one system call. What
// goes beyond the store's MaxRun is counted only, and so is everything from the
// first byte on that the disk did not take. After Close it does nothing.
func (l *Log) Write(stream Stream, p []byte) {
	l.disk.Lock()
	defer l.disk.Unlock()
	if l.closed || len(p) == 0 {
		return
	}
	kept := l.keep(p)
	l.count(p, kept)
	if kept > 0 {
		l.check(l.index.add(stream, p[:kept], time.Since(l.start)))
		l.flushSoon()
	}
}

// keep writes what there is room for and returns how much that was.
func (l *Log) keep(p []byte) int {
	if l.file == nil {
		return 0
	}
	most := l.store.maxRun()
	n, err := l.file.Write(p[:max(0, min(int64(len(p)), most-l.Stats().Kept))])
	l.store.grew(n)
	switch {
	case err != nil:
		l.fail(err)
	case n < len(p):
		l.giveUp(fmt.Errorf("the log of one run is limited to %d bytes", most))
	default:
		l.leaveRoom(n)
	}
	return n
}

// leaveRoom stops before the disk is full: what else needs it may bear that
// less well than a log does.
func (l *Log) leaveRoom(n int) {
	if l.step += n; l.step < roomStep {
		return
	}
	l.step = 0
	if err := l.store.checkRoom(); err != nil {
		l.store.askForSweep()
		l.fail(err)
	}
}

func (l *Log) count(p []byte, kept int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Bytes += int64(len(p))
	l.stats.Kept += int64(kept)
	l.stats.Lines += int64(bytes.Count(p, lineFeed))
	l.midway = p[len(p)-1] != '\n'
	l.tell()
}

// Changed returns a channel that is closed when the log next grows or the
// command's end is noted. Ask for it before looking at what is there already.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.news == nil {
		l.news = make(chan struct{})
	}
	return l.news
}

// tell wakes who waits. The caller holds l.mu.
func (l *Log) tell() {
	if l.news != nil {
		close(l.news)
		l.news = nil
	}
}

// fail gives up because of the disk, and tells its owner.
func (l *Log) fail(err error) {
	l.logger.Warn("a raw log is not complete", "err", err)
	l.giveUp(err)
}

// giveUp lets go of the file: from here on bytes are only counted.
func (l *Log) giveUp(reason error) {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.because(reason.Error())
}

// Finish notes how the command ended. What processes that it left behind still
// print may follow. Only the first call counts.
func (l *Log) Finish(e End) {
	l.disk.Lock()
	defer l.disk.Unlock()
	if l.closed {
		return
	}
	l.index.end(e)
	l.flushSoon()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell()
}

// Close ends the log.
func (l *Log) Close() {
	l.disk.Lock()
	defer l.disk.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	if l.timer != nil {
		l.timer.Stop() // one that fires already finds the log closed
	}
	if l.file != nil {
		// A network file system may say only now that it has no room.
		if err := l.file.Close(); err != nil {
			l.fail(err)
		}
	}
	l.check(l.index.close(l.Stats()))
	l.store.end(l.exec, l)
}

// Stats returns the figures so far.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Lost = s.Bytes - s.Kept
	s.Complete = s.Reason == ""
	if l.midway {
		s.Lines++
	}
	return s
}

// flushSoon sees to it that the index does not stay behind.
func (l *Log) flushSoon() {
	if l.timer == nil && l.index.file != nil {
		l.timer = time.AfterFunc(indexDelay, l.flush)
	}
}

func (l *Log) flush() {
	l.disk.Lock()
	defer l.disk.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if !l.closed {
		l.check(l.index.flush())
	}
}

// check reports a failing index. The log goes on without it.
func (l *Log) check(err error) {
	if err != nil {
		l.logger.Warn("the index of a raw log is not complete", "err", err)
	}
}
