// Package rawlog stores the output of commands on disk. Each run has a log file
// with the raw bytes of both streams in order of arrival, and an index file that
// records which stream each byte belongs to and when it arrived. A log can be
// read while it is written, and after its writer has ended or crashed: by line
// range, from the end, by stream, or by pattern.
//
// The package does not shorten, mask or interpret the output. It never fails or
// delays a run: if the disk does not accept the bytes, they are only counted, and
// the log's Stats say so. It does not check ownership: the caller decides who may
// read a log.
//
// The caller must give each run a unique name that the box cannot choose, call
// Write from one goroutine, Close every Log that it created, and run Tend, which
// deletes old logs and enforces the size limit. Logs contain whatever commands
// print, including secrets, so Dir must be outside every directory that a box can
// see.
//
// # Files
//
// A run named X has two files in the store's directory. Both are readable by
// their owner only, both are append-only, and neither is reused for another run:
//
//	X.log   the first bytes of the run's output, unchanged
//	X.idx   the index of those bytes
//
// A run may have a third file, X.rec, with records of the caller's own (see Records).
//
// X.log ends at the first byte that was not stored. It may have gaps before that:
// a run can print more than its box can buffer while its server is away. A gap
// takes no space in X.log; the index records where it is.
//
// # Index
//
// X.idx is UTF-8 text that consists of records. A record is one line: a letter, a
// space, its content, a line feed. A reader ignores text after the last line feed,
// which is an incomplete record, and also records with an unknown letter and
// unknown keys in a JSON object. So the format can be extended.
//
//	h {"exec":"…","box":"…","owner":"…","cmd":"…","cmdBytes":9,"dir":"…","note":"…","start":"…"}
//	o BYTES LINES AT
//	e BYTES LINES AT
//	m BYTES LINES AT
//	g {"bytes":9,"lines":2,"reason":"…"}
//	x {"status":"exited","code":1,"signal":"","tookMs":2210}
//	z {"bytes":9,"lines":2,"kept":9,"reason":""}
//
// h is the head and always the first record: who ran which command, where, and
// when it began (RFC 3339). owner and note are the caller's own values. owner,
// cmd, dir and note hold at most 16 KiB each, cut between two characters; cmdBytes
// is the full length of the command.
//
// o, e and m are spans. A span says that the next BYTES bytes of the log were
// printed to standard output (o), standard error (e) or both (m), contain LINES
// line feeds, and began to arrive AT milliseconds after the start. All three are
// unsigned decimal numbers. The first span begins at the log's first byte, each
// later one where the previous span ended. So sums over the spans are offsets and
// line numbers, and a reader finds any line by reading one span of the log.
//
// A span of one stream holds what arrives within 100 ms, up to about 256 KiB.
// Once the spans fill 1 MiB they become coarse: each then holds 256 KiB of any
// stream and time, and is an m if it contains both streams. So exact attribution
// ends after about fifty thousand changes of stream, and no command can make its
// index large.
//
// g is a gap: this many bytes and line feeds were printed here and are not in the
// log. It is written before any byte that follows it, so the size of the log and
// its gaps always add up to the output accounted for. Line numbers do not count
// gaps: line 7 is the seventh line of X.log.
//
// x is the end of the command itself and occurs at most once: its status, its exit
// code or signal, and its duration in milliseconds. Later spans were printed by
// processes that the command left behind. z is the last record: the number of
// bytes and lines printed in all, the number of bytes stored, and why some are
// missing.
//
// # Reading
//
// Both files can be read while they are written. Log bytes are visible as soon as
// they arrive. The index is at most one second behind, except for a coarse span,
// which is written when it is full. The stream of log bytes after the last span is
// not known yet. An index without z belongs to a run that may still print, or to a
// server that died before it wrote z. Nothing is synced: after a power failure
// either file may be the shorter one, and readers ignore spans beyond the log's
// end.
//
// A run that outlives its writer continues in the same files, unless z was
// written: an incomplete last record of the index is cut off, and the bytes that
// the index did not cover yet become m spans.
//
// The files of upcoming runs may be created in advance. They are empty and locked,
// and are deleted if those runs do not begin.
//
// # Deletion
//
// The files of a run are deleted together, X.idx last. On systems with flock,
// X.idx is locked for as long as its run may print. Other processes that share the
// directory then leave both files alone.
package rawlog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Store is a directory of raw logs. It is used like http.Server: set its
// fields, then call its methods. The methods are safe for concurrent use.
type Store struct {
	Dir      string
	MaxRun   int64         // bytes stored of one run; 0: 64 MiB
	MaxTotal int64         // size limit of all files together, see Tend; 0: 1 GiB
	MaxAge   time.Duration // age after which an ended run is deleted; 0: 7 days
	Logger   *slog.Logger  // gets disk errors; nil: discards them

	grown atomic.Int64 // bytes stored since the last requested sweep

	prepareOnce  sync.Once          // makes the next two
	prepareAsked chan func() string // holds a request of Prepare
	prepared     chan *preparedLog

	mu         sync.Mutex
	logs       map[string]*Log // logs being written
	ages       ager            // ages of files
	sweepAsked chan struct{}   // holds a request for an early sweep
}

// Meta describes a run before it begins.
type Meta struct {
	Exec  string    // name of the run and its files: letters, digits, - and _
	Box   string    // the box that it runs in
	Owner string    // owner of the run, set by the caller
	Cmd   string    // the command, as given
	Dir   string    // its working directory in the box
	Note  string    // the caller's own data, at most 16 KiB; readers get it back
	Start time.Time // zero: now
}

// Check creates the directory if necessary and verifies that logs can be created
// in it. The error names the directory.
func (s *Store) Check() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the log directory %s (%w); choose one that this user may write to", s.Dir, cause(err))
	}
	info, err := os.Stat(s.Dir)
	if err != nil {
		return fmt.Errorf("cannot inspect the log directory %s (%w)", s.Dir, cause(err))
	}
	if exposed(info) {
		return fmt.Errorf("the log directory %s is writable by every user (mode %v), and logs contain what commands print; try: chmod go-w %s, or choose a separate directory", s.Dir, info.Mode(), s.Dir)
	}
	probe, err := os.CreateTemp(s.Dir, ".check-*")
	if err != nil {
		return fmt.Errorf("cannot write to the log directory %s (%w); choose one that this user may write to", s.Dir, cause(err))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// Create begins the log of a run. It never fails: if the files cannot be created,
// the Log only counts what is written to it, and its Stats give the reason.
func (s *Store) Create(m Meta) *Log {
	l := s.newLog(m.Exec)
	if err := l.makeFiles(); err != nil {
		l.fail(err)
	}
	l.Begin(m)
	return l
}

func (s *Store) newLog(exec string) *Log {
	return &Log{store: s, exec: exec, logger: s.logger().With("exec", exec)}
}

// makeFiles creates the log file and its index. A failing index is not an error:
// the log works without one.
func (l *Log) makeFiles() error {
	s := l.store
	if !isName(l.exec) {
		return fmt.Errorf("log name %q is not valid, use 1 to 128 letters, digits, - and _", l.exec)
	}
	file, err := s.create(s.base(l.exec) + logExt)
	if err != nil {
		return err
	}
	l.path, l.file = file.Name(), file
	s.register(l)
	if l.index.file, err = s.create(s.base(l.exec) + indexExt); err != nil {
		l.logger.Warn("cannot create the index of a raw log", "err", err)
		return nil
	}
	lock(l.index.file)
	return nil
}

// create creates a new file. It never opens an existing file or the target of a
// symbolic link. If the directory has been removed, create makes it again.
func (s *Store) create(path string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL | os.O_APPEND | noFollow
	file, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(s.Dir, 0o700) == nil {
		file, err = os.OpenFile(path, flags, 0o600)
	}
	return file, err
}

// The file name extensions of a run's files.
const (
	logExt   = ".log"
	indexExt = ".idx"
)

// Path returns the path of a run's log file, whether it exists or not.
func (s *Store) Path(exec string) string { return s.base(exec) + logExt }

// base returns the path of a run's files without the extension.
func (s *Store) base(exec string) string { return filepath.Join(s.Dir, exec) }

// open opens a file of the store for reading. It does not follow a symbolic link.
func open(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|noFollow, 0) }

func (s *Store) maxRun() int64         { return cmp.Or(s.MaxRun, 64<<20) }
func (s *Store) maxTotal() int64       { return cmp.Or(s.MaxTotal, 1<<30) }
func (s *Store) maxAge() time.Duration { return cmp.Or(s.MaxAge, 7*24*time.Hour) }

// writing returns the log of a run that this store writes, or nil.
func (s *Store) writing(exec string) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs[exec]
}

func (s *Store) register(l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ages.observe(time.Now())
	if s.logs == nil {
		s.logs = map[string]*Log{}
	}
	s.logs[l.exec] = l
}

func (s *Store) unregister(l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ages.observe(time.Now()) // the files' times are of the clock as it is set now
	if s.logs[l.exec] == l {
		delete(s.logs, l.exec)
	}
}

// fileAge returns a function that computes the current age of a file from its
// modification time.
func (s *Store) fileAge() (age func(modified time.Time) time.Duration) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ages.observe(now)
	ages := ager{s.ages.began, slices.Clone(s.ages.settings)}
	return func(modified time.Time) time.Duration { return ages.age(now, modified) }
}

// requestSweep makes Tend sweep the store now.
func (s *Store) requestSweep() {
	select {
	case s.sweepRequests() <- struct{}{}:
	default: // a request is pending already
	}
}

func (s *Store) sweepRequests() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sweepAsked == nil {
		s.sweepAsked = make(chan struct{}, 1)
	}
	return s.sweepAsked
}

func (s *Store) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}

// isName reports whether s can name a run, so that no name is a path. A regular
// expression with a count would dominate the package's start-up time.
func isName(s string) bool {
	return s != "" && len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

// cause returns err without the operation and the path, which the surrounding
// message already names.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
