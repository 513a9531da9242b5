package rawlog

import (
	"io/fs"
	"os"
	"time"
)

// maxPrepared is the number of runs whose files are created in advance: a run can
// use one pair while Tend creates the other.
const maxPrepared = 2

// preparePause is the time between a request of Prepare, made at the end of a run,
// and the creation of files. In this time the caller may still wait for the reply,
// or request the next run.
const preparePause = 3 * time.Millisecond

// A preparedLog is the log of an upcoming run. To create its two files takes the
// file system longer than everything else that the log of a short run needs, so
// Tend creates them while no caller waits.
//
// The files have their final names, are empty, and are locked like those of a
// running command. A server that is killed leaves them behind like those of a run
// without output, and a sweep deletes them in time.
type preparedLog struct {
	log  *Log
	made [2]fs.FileInfo // the files, in the order of paths
}

// Prepare asks Tend to create the files of upcoming runs, with names from draw. It
// does not wait. It has no effect unless Tend runs.
func (s *Store) Prepare(draw func() string) {
	s.prepareOnce.Do(s.makePrepared)
	select {
	case s.prepareAsked <- draw:
	default: // a request is pending already
	}
}

// Prepared returns a log whose files were created in advance, or nil if there is
// none. Exec returns the name of its run. The caller must call Begin.
func (s *Store) Prepared() *Log {
	s.prepareOnce.Do(s.makePrepared)
	for {
		select {
		case next := <-s.prepared:
			if next.intact() {
				return next.log
			}
			next.log.Discard()
		default:
			return nil
		}
	}
}

func (s *Store) makePrepared() {
	s.prepareAsked = make(chan func() string, 1)
	s.prepared = make(chan *preparedLog, maxPrepared)
}

// fillPrepared creates the missing files. Only Tend calls it. It ignores errors: the
// run that needs the files reports them.
func (s *Store) fillPrepared(draw func() string) {
	for len(s.prepared) < maxPrepared {
		next := s.prepareLog(draw())
		if next == nil {
			return
		}
		s.prepared <- next
	}
}

func (s *Store) discardPrepared() {
	for {
		select {
		case next := <-s.prepared:
			next.log.Discard()
		default:
			return
		}
	}
}

func (s *Store) prepareLog(exec string) *preparedLog {
	p := &preparedLog{log: s.newLog(exec)}
	if p.log.makeFiles() == nil && p.log.index.file != nil && p.stat(&p.made) {
		return p
	}
	p.log.Discard()
	return nil
}

// intact reports whether the files still exist under their names. The directory may
// have been removed meanwhile.
func (p *preparedLog) intact() bool {
	var now [2]fs.FileInfo
	return p.stat(&now) && os.SameFile(now[0], p.made[0]) && os.SameFile(now[1], p.made[1])
}

func (p *preparedLog) stat(at *[2]fs.FileInfo) bool {
	for i, path := range p.paths() {
		info, err := os.Lstat(path)
		if err != nil {
			return false
		}
		at[i] = info
	}
	return true
}

func (p *preparedLog) paths() [2]string {
	base := p.log.store.base(p.log.exec)
	return [2]string{base + logExt, base + indexExt}
}
