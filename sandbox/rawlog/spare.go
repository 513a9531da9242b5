package rawlog

import (
	"io/fs"
	"os"
	"time"
)

// mostSpares is how many runs have their files made before they begin: one may be
// taken while the other is made again.
const mostSpares = 2

// sparePause is how long after a run's end it is until files are made: until then its
// caller may still wait for the answer, or have asked for the next run.
const sparePause = 3 * time.Millisecond

// A spare is the log of a run that is to come. A file system takes longer to make
// two files than everything else takes that the log of a short run needs, and so
// they are made while nobody waits for them.
//
// They have a name already, are empty, and are claimed as those of a run that goes
// on. A server that is killed leaves them behind as it leaves a run that it had
// written nothing of, and they are deleted in their turn.
type spare struct {
	log  *Log
	made [2]fs.FileInfo // the files, in the order of paths
}

// Prepare has Tend make the files of runs to come, under names that it draws. It
// does not wait, and where Tend does not run nothing comes of it.
func (s *Store) Prepare(draw func() string) {
	s.spares.Do(s.makeRoomForSpares)
	select {
	case s.sparesAsked <- draw:
	default: // it is asked for already
	}
}

// Prepared returns a log whose files were made before, nil where none stands
// ready. Its run has the name that Exec tells, and Begin must follow.
func (s *Store) Prepared() *Log {
	s.spares.Do(s.makeRoomForSpares)
	for {
		select {
		case next := <-s.sparesReady:
			if next.stands() {
				return next.log
			}
			next.log.Discard()
		default:
			return nil
		}
	}
}

func (s *Store) makeRoomForSpares() {
	s.sparesAsked = make(chan func() string, 1)
	s.sparesReady = make(chan *spare, mostSpares)
}

// addSpares makes what is missing. Only Tend calls it. Where the disk does not let
// it, the run that needs the files will say so.
func (s *Store) addSpares(draw func() string) {
	for len(s.sparesReady) < mostSpares {
		next := s.newSpare(draw())
		if next == nil {
			return
		}
		s.sparesReady <- next
	}
}

func (s *Store) discardSpares() {
	for {
		select {
		case next := <-s.sparesReady:
			next.log.Discard()
		default:
			return
		}
	}
}

func (s *Store) newSpare(exec string) *spare {
	p := &spare{log: s.newLog(exec)}
	if p.log.makeFiles() == nil && p.log.index.file != nil && p.look(&p.made) {
		return p
	}
	p.log.Discard()
	return nil
}

// stands reports whether the files are where their names say. Somebody may have
// cleaned the directory away since.
func (p *spare) stands() bool {
	var now [2]fs.FileInfo
	return p.look(&now) && os.SameFile(now[0], p.made[0]) && os.SameFile(now[1], p.made[1])
}

func (p *spare) look(at *[2]fs.FileInfo) bool {
	for i, path := range p.paths() {
		info, err := os.Lstat(path)
		if err != nil {
			return false
		}
		at[i] = info
	}
	return true
}

func (p *spare) paths() [2]string {
	base := p.log.store.base(p.log.exec)
	return [2]string{base + logExt, base + indexExt}
}
