// Package rawlog keeps what commands print: one file a run, the raw bytes of
// both streams in the order of their arrival, written as they come, and beside
// it an index that says which bytes are which stream's and when they came. A log
// can be read while it is written and after whatever end of its writer: by
// lines, from the end, of one stream, or where a pattern matches.
//
// The package does not shorten, mask or interpret anything, and it never fails
// or delays a run for the sake of its log: where the disk does not take the
// bytes they are counted, and the counts say so. It knows no owners: who may
// read what is the caller's to say.
//
// The caller must give each run a name of its own that is not the box's to
// choose, call Write from one goroutine, Close every Log that it created, and
// have Tend run, which deletes what is old or too much. Logs hold whatever
// commands print, secrets too: Dir belongs outside of every directory that a
// box can see.
//
// # Files
//
// A run named X has two files in the store's directory, both readable by their
// owner only, both only ever appended to, neither ever used for another run:
//
//	X.log   the first bytes of the run's output, exactly as they came
//	X.idx   what there is to know about them
//
// X.log ends at the first byte that was not kept. Before that it may have gaps:
// where nobody took what a run printed while its server was away, and too much
// came for the box to hold. They take no room in it, and the index tells where
// they are.
//
// # Index
//
// X.idx is text in UTF-8, made of records. A record is a line: a letter, a
// space, its content, a line feed. What follows the last line feed is a record
// that was not written to its end, and is ignored. So is a record whose letter
// the reader does not know, and a key that it does not know in a JSON object:
// both can be added to.
//
//	h {"exec":"…","box":"…","owner":"…","cmd":"…","cmdBytes":9,"dir":"…","note":"…","start":"…"}
//	o BYTES LINES AT
//	e BYTES LINES AT
//	m BYTES LINES AT
//	g {"bytes":9,"lines":2,"reason":"…"}
//	x {"status":"exited","code":1,"signal":"","tookMs":2210}
//	z {"bytes":9,"lines":2,"kept":9,"reason":""}
//
// h is the head, always the first record: who ran what, where, and when it
// began (RFC 3339). owner is the caller's word for whose run it is, and note what
// it wants to find here again. cmd and dir hold 16 KiB at most, cut between two
// characters; cmdBytes is the command's whole length.
//
// o, e and m are spans: the next BYTES bytes of the log were printed to
// standard output (o), standard error (e) or to both (m), hold LINES line
// feeds, and began to arrive AT milliseconds after the start. All three are
// decimal numbers without sign. The first span begins at the log's first byte
// and each later one where the span before it ended, so their sums are offsets
// and line numbers, and a line is found by reading one span of the log.
//
// A span of one stream takes up what arrives for it within 100 ms, to about
// 256 KiB. Once the spans fill 1 MiB they turn coarse: each then takes up
// 256 KiB whatever the stream and the time, and is an m where both streams had
// part in it. So exact attribution ends where a command has changed streams
// some fifty thousand times, and no command can make its index large.
//
// g is a gap: so many bytes and line feeds were printed here that are not in the
// log. It is written before any byte behind it, so the size of the log and its gaps
// always say how much of the output is accounted for. Lines are counted without
// it: line 7 is the seventh of X.log.
//
// x is the end of the command itself, at most once: how it ended, its exit code
// or its signal, how long it took in milliseconds. Spans behind it were printed by processes
// that it left behind. z is the last record: how many bytes and lines were
// printed in all, how many bytes of them the log has, and why not more.
//
// # Reading
//
// Both files can be read while they are written. Log bytes are there as soon
// as they came; the index is at most a second behind, but for a coarse span,
// which is written when it is full. Log bytes behind the last span are of a
// stream not told yet. An index without z belongs to a run whose output is
// still awaited, or to a server that did not live to write it. Nothing is
// synced: after a power failure either file may be the shorter one, and spans
// beyond the log's end count for nothing.
//
// A run that outlived its writer goes on in the same files, if it was not over:
// what is behind the last whole record of the index is cut off, and the bytes that
// it was behind become m spans.
//
// The files of the next runs may be there before them, empty and locked, and are
// deleted where those do not come.
//
// # Deletion
//
// The files of a run are deleted together, X.log first. Where the system has
// it, X.idx is locked (flock) for as long as its run may print: another process
// that shares the directory leaves both alone then.
package rawlog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Store is a directory of raw logs. It is used like http.Server: set its
// fields, then call. Its methods may be called from several goroutines.
type Store struct {
	Dir      string
	MaxRun   int64         // bytes kept of one run; 0: 64 MiB
	MaxTotal int64         // bytes that all files may take, see Tend; 0: 1 GiB
	MaxAge   time.Duration // after which a run that is over is deleted; 0: 7 days
	Logger   *slog.Logger  // nil: nobody is told of failing disks

	grown atomic.Int64 // bytes kept since a sweep was last asked for

	spares      sync.Once          // makes the next two
	sparesAsked chan func() string // has a token when there is to be a spare, see Prepare
	sparesReady chan *spare

	mu         sync.Mutex
	logs       map[string]*Log // those being written
	ages       ager            // of files
	sweepAsked chan struct{}   // has a token when there is much to look over
}

// Meta is what is known about a run before it begins.
type Meta struct {
	Exec  string    // names the run and its files: letters, digits, - and _
	Box   string    // the box that it runs in
	Owner string    // whose it is
	Cmd   string    // the command, as given
	Dir   string    // its working directory in the box
	Note  string    // the caller's own, for whoever opens the log again; 16 KiB at most
	Start time.Time // zero: now
}

// Check makes the directory if need be and proves that logs can be made in it.
// The error is a sentence that names the directory.
func (s *Store) Check() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the log directory %s (%w); choose one that this user may write to", s.Dir, cause(err))
	}
	info, err := os.Stat(s.Dir)
	if err != nil {
		return fmt.Errorf("cannot look at the log directory %s (%w)", s.Dir, cause(err))
	}
	if exposed(info) {
		return fmt.Errorf("the log directory %s may be written to by every user (mode %v), and logs hold what commands print; try: chmod go-w %s, or choose a directory of its own", s.Dir, info.Mode(), s.Dir)
	}
	probe, err := os.CreateTemp(s.Dir, ".check-*")
	if err != nil {
		return fmt.Errorf("cannot write to the log directory %s (%w); choose one that this user may write to", s.Dir, cause(err))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// Create begins the log of a run. It never fails: where the disk does not let
// it make the files, the Log counts what it is given, and its Stats say why
// nothing was kept.
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

// makeFiles makes the log's file and its index. Without an index a log is kept
// all the same.
func (l *Log) makeFiles() error {
	s := l.store
	if !isName(l.exec) {
		return fmt.Errorf("%q cannot name a log: it takes 1 to 128 letters, digits, - and _", l.exec)
	}
	file, err := s.create(s.base(l.exec) + logExt)
	if err != nil {
		return err
	}
	l.path, l.file = file.Name(), file
	s.begin(l.exec, l)
	if l.index.file, err = s.create(s.base(l.exec) + indexExt); err != nil {
		l.logger.Warn("no index for a raw log", "err", err)
		return nil
	}
	claim(l.index.file)
	return nil
}

// create makes a new file and never opens one that is there, nor anything that
// a symbolic link points to. A directory that somebody cleaned away is made
// again.
func (s *Store) create(path string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL | os.O_APPEND | noFollow
	file, err := os.OpenFile(path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(s.Dir, 0o700) == nil {
		file, err = os.OpenFile(path, flags, 0o600)
	}
	return file, err
}

// The endings of a run's files.
const (
	logExt   = ".log"
	indexExt = ".idx"
)

// Path is the file of a run's log, there or not.
func (s *Store) Path(exec string) string { return s.base(exec) + logExt }

// base is the path of a run's files without their endings.
func (s *Store) base(exec string) string { return filepath.Join(s.Dir, exec) }

// open opens a file of the store for reading, never what a symbolic link
// points to.
func open(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|noFollow, 0) }

func (s *Store) maxRun() int64         { return cmp.Or(s.MaxRun, 64<<20) }
func (s *Store) maxTotal() int64       { return cmp.Or(s.MaxTotal, 1<<30) }
func (s *Store) maxAge() time.Duration { return cmp.Or(s.MaxAge, 7*24*time.Hour) }

func (s *Store) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}

// isName keeps a run's name from being a path. As a regular expression with a
// count it would be the most that the package does when a program starts.
func isName(s string) bool {
	return s != "" && len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

// cause is err without the operation and the path, which the sentence around
// it names.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
