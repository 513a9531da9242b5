package rawlog

import (
	"io"
	"os"
	"sync"
)

// recordsExt is the extension of the file of records.
const recordsExt = ".rec"

// MaxRecords bounds the records of a run, in bytes.
const MaxRecords = 16 << 20

// Records is a file X.rec of the caller's own records of a run, beside its log. It is made
// with the first record, is bounded, and is deleted with the log. It never fails or delays a
// run: what finds no room is only counted.
type Records struct {
	store *Store
	exec  string

	mu     sync.Mutex // guards the rest
	file   *os.File
	failed error // why nothing is stored any more
	size   int64
	lost   int64 // number of calls of Append that stored nothing
}

// Records returns the records of a run. Those that an earlier program wrote stay.
func (s *Store) Records(exec string) *Records { return &Records{store: s, exec: exec} }

// Append stores p, or all of it is lost. Only a call with beyond set uses the last part of
// the file, which is for an account of what was lost.
func (r *Records) Append(p []byte, beyond bool) (stored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stored = r.append(p, beyond); !stored {
		r.lost++
	}
	return stored
}

// lastRecords is the part of a file that only calls with beyond set use.
const lastRecords = 4 << 10

func (r *Records) append(p []byte, beyond bool) bool {
	most := int64(MaxRecords)
	if !beyond {
		most -= lastRecords
	}
	if r.failed != nil || !r.open() || r.size+int64(len(p)) > most {
		return false
	}
	if r.size/floorStep != (r.size+int64(len(p)))/floorStep {
		if err := r.store.checkRoom(); err != nil {
			r.fail(err)
			return false
		}
	}
	n, err := r.file.Write(p)
	r.size += int64(n)
	r.store.grew(n)
	if err != nil {
		r.fail(err)
	}
	return err == nil
}

func (r *Records) fail(err error) {
	r.failed = cause(err)
	r.store.logger().Warn("cannot store records of a run", "exec", r.exec, "err", r.failed)
}

// open opens the file, and makes it if necessary.
func (r *Records) open() bool {
	if r.file != nil {
		return true
	}
	file, err := openRecords(r.store, r.exec)
	if err != nil {
		r.fail(err)
		return false
	}
	if info, err := file.Stat(); err == nil {
		r.size = info.Size()
	}
	r.file = file
	return true
}

func openRecords(s *Store, exec string) (*os.File, error) {
	if !isName(exec) {
		return nil, os.ErrInvalid
	}
	return os.OpenFile(s.base(exec)+recordsExt, os.O_WRONLY|os.O_CREATE|os.O_APPEND|noFollow, 0o600)
}

// Lost returns how many calls of Append stored nothing.
func (r *Records) Lost() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Close closes the file. Append may be called again.
func (r *Records) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// OpenRecords opens the records of a run for reading. The error is fs.ErrNotExist if it has
// none. A last record may be incomplete.
func (s *Store) OpenRecords(exec string) (io.ReadCloser, error) {
	if !isName(exec) {
		return nil, os.ErrNotExist
	}
	file, err := open(s.base(exec) + recordsExt)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(file, MaxRecords), file}, nil
}
