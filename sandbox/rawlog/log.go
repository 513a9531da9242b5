package rawlog

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// A Stream is an output stream of a command. Its value is the letter of the index
// record.
type Stream byte

// The streams. Mixed occurs only in a Span.
const (
	Stdout Stream = 'o'
	Stderr Stream = 'e'
	Mixed  Stream = 'm'
)

// indexDelay is how far the index may be behind the log. A server that dies loses
// the attribution of at most this much output; writing every span at once would
// cost a system call each.
const indexDelay = time.Second

// A Log stores the output of one run. Its methods are safe for concurrent use, but
// the order of the bytes is the order of the Writes, so only one goroutine should
// write.
type Log struct {
	store  *Store
	exec   string
	path   string
	start  time.Time
	logger *slog.Logger

	disk      sync.Mutex // held while writing; guards the fields below, to mu
	file      *os.File   // nil: output is only counted
	index     index
	timer     *time.Timer // flushes the index; nil: nothing to flush
	closed    bool
	unchecked int // bytes stored since the last check of free disk space

	// The figures have a mutex of their own, so that reading them never waits for
	// the disk.
	mu      sync.Mutex
	stats   Stats         // Lines counts line feeds here
	partial bool          // the last line has no line feed yet
	changed chan struct{} // closed at the next change; nil: no caller waits
}

// Stats are the figures of a log so far.
type Stats struct {
	Bytes    int64  // printed in all
	Lines    int64  // printed in all; the last line counts without its line feed too
	Kept     int64  // bytes in the file
	Lost     int64  // bytes that are not in the file
	Complete bool   // the file has every byte that was printed
	Reason   string // why it does not
}

// An End is how a command ended.
type End struct {
	Status string // "exited", "killed", "timeout" …
	Code   int
	Signal string
	Took   time.Duration
}

// None returns a log that stores nothing, for a run whose output goes elsewhere. Its
// figures say why.
func None(exec, why string) *Log {
	return &Log{exec: exec, closed: true, stats: Stats{Reason: why}}
}

// Begin records the description of the run, which is the first record of the
// index. Only a log from Prepared needs this call; Create makes it.
func (l *Log) Begin(m Meta) {
	l.disk.Lock()
	defer l.disk.Unlock()
	if m.Start.IsZero() {
		m.Start = time.Now()
	}
	l.start, m.Exec = m.Start, l.exec
	l.warnIndex(l.index.begin(m))
}

// Discard deletes a log from Prepared whose run did not begin. It replaces Begin
// and Close.
func (l *Log) Discard() {
	if l.file != nil {
		l.file.Close()
	}
	if l.index.file != nil {
		l.index.file.Close()
	}
	l.store.unregister(l)
	l.store.remove(l.exec)
}

// Exec returns the name of the log's run.
func (l *Log) Exec() string { return l.exec }

// Path returns the path of the log file, or "" if it could not be created.
func (l *Log) Path() string { return l.path }

// Write appends output of a stream, immediately and with one system call. It only
// counts bytes beyond the store's MaxRun, and all bytes after the first one that
// the disk did not accept. After Close it does nothing.
func (l *Log) Write(stream Stream, p []byte) {
	l.disk.Lock()
	defer l.disk.Unlock()
	if l.closed || len(p) == 0 {
		return
	}
	stored := l.append(p)
	l.count(p, stored)
	if stored > 0 {
		l.warnIndex(l.index.add(stream, p[:stored], time.Since(l.start)))
		l.scheduleFlush()
	}
}

// append writes what fits into the log's limit and returns how many bytes it wrote.
func (l *Log) append(p []byte) int {
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
		l.closeFile(fmt.Errorf("the log of one run is limited to %d bytes", most))
	default:
		l.checkFloor(n)
	}
	return n
}

// checkFloor stops the log before the disk is full, since other programs may
// tolerate a full disk less well than a log.
func (l *Log) checkFloor(n int) {
	if l.unchecked += n; l.unchecked < floorStep {
		return
	}
	l.unchecked = 0
	if err := l.store.checkRoom(); err != nil {
		l.store.requestSweep()
		l.fail(err)
	}
}

func (l *Log) count(p []byte, stored int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Bytes += int64(len(p))
	l.stats.Kept += int64(stored)
	l.stats.Lines += int64(bytes.Count(p, lineFeed))
	l.partial = p[len(p)-1] != '\n'
	l.notify()
}

// Changed returns a channel that is closed when the log next grows or the
// command's end is recorded. Call it before reading what is already stored.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// notify closes the channel of Changed. The caller holds l.mu.
func (l *Log) notify() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// fail closes the file because of a disk error and logs it.
func (l *Log) fail(err error) {
	l.logger.Warn("raw log is incomplete", "err", err)
	l.closeFile(err)
}

// closeFile closes the file and records the reason. From here on bytes are only counted.
func (l *Log) closeFile(reason error) {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addReason(reason.Error())
}

// Finish records how the command ended. Output of processes that the command left
// behind may follow. Only the first call counts.
func (l *Log) Finish(e End) {
	l.disk.Lock()
	defer l.disk.Unlock()
	if l.closed {
		return
	}
	l.index.end(e)
	l.scheduleFlush()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notify()
}

// Close ends the log.
func (l *Log) Close() {
	l.disk.Lock()
	defer l.disk.Unlock()
	if !l.stop() {
		return
	}
	if l.file != nil {
		// A network file system may report only now that it is full.
		if err := l.file.Close(); err != nil {
			l.fail(err)
		}
	}
	l.warnIndex(l.index.close(l.Stats()))
	l.store.unregister(l)
}

// Detach closes the files of a log whose run continues. The index does not record
// an end, so that Reopen can continue the log.
func (l *Log) Detach() {
	l.disk.Lock()
	defer l.disk.Unlock()
	if !l.stop() {
		return
	}
	if l.file != nil {
		l.file.Close()
	}
	l.warnIndex(l.index.detach())
	l.store.unregister(l)
}

// stop ends writing and reports whether this call did so. The caller holds l.disk.
func (l *Log) stop() bool {
	if l.closed {
		return false
	}
	l.closed = true
	if l.timer != nil {
		l.timer.Stop() // a timer that fires anyway finds the log closed
	}
	return true
}

// Skip records a gap: the next byte that Write gets is at offset at of the run's
// output, with feeds line feeds before it, and the bytes between the last one and
// it are lost. Readers see the reason. Skip returns false if the counts are
// impossible.
func (l *Log) Skip(at, feeds int64, reason string) bool {
	l.disk.Lock()
	defer l.disk.Unlock()
	l.mu.Lock()
	g := Gap{Off: l.stats.Kept, Bytes: at - l.stats.Bytes, Lines: feeds - l.stats.Lines, Reason: clip(reason, maxText)}
	l.mu.Unlock()
	if l.closed || !g.possible() {
		return false
	}
	// The gap must be on disk before any later byte: after a crash, the size of the
	// log and its gaps tell the offset of the next byte.
	if l.file != nil {
		if err := l.index.gap(g); err != nil {
			l.warnIndex(err)
			l.closeFile(err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addGap(g)
	l.notify()
	return true
}

// addGap counts a gap. The caller holds l.mu, or is the only user of the log.
func (l *Log) addGap(g Gap) {
	l.stats.Bytes += g.Bytes
	l.stats.Lines += g.Lines
	l.addReason(g.Reason)
}

// addReason adds a reason why the log is incomplete. The caller holds l.mu, or is
// the only user of the log.
func (l *Log) addReason(reason string) {
	switch l.stats.Reason {
	case "", reason:
		l.stats.Reason = reason
	default:
		l.stats.Reason = clip(l.stats.Reason+"; "+reason, maxText)
	}
}

// Stats returns the current figures.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Lost = s.Bytes - s.Kept
	s.Complete = s.Reason == ""
	if l.partial {
		s.Lines++
	}
	return s
}

// scheduleFlush bounds how far the index is behind the log.
func (l *Log) scheduleFlush() {
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
		l.warnIndex(l.index.flush())
	}
}

// warnIndex logs an error of the index. The log continues without it.
func (l *Log) warnIndex(err error) {
	if err != nil {
		l.logger.Warn("index of a raw log is incomplete", "err", err)
	}
}
