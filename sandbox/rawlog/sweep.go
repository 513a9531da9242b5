package rawlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// sweepInterval is the time between sweeps: other processes may write to the
	// store, and logs age.
	sweepInterval = time.Minute

	// sweepShare requests an early sweep when the store has grown by MaxTotal /
	// sweepShare. So the logs exceed their limit by a sixteenth at most.
	sweepShare = 16

	// maxFloor is how much disk space logs leave free, enough for a system to keep
	// working. On a small disk it is 1/floorShare of the disk.
	maxFloor   = 256 << 20
	floorShare = 20

	// floorStep is how much a run stores between two checks of the free disk space,
	// and so what every run may store, however full the disk is.
	floorStep = 1 << 20

	// fileCost is the least disk space that a file takes: one block.
	fileCost = 4 << 10
)

// An Entry is a run in the store.
type Entry struct {
	Exec  string
	Size  int64         // of its files
	Quiet time.Duration // time since the last write to them, at least
}

// List returns the runs of the store, least recently written first.
func (s *Store) List() ([]Entry, error) {
	files, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	byExec, age := map[string]*Entry{}, s.fileAge()
	for _, f := range files {
		if exec, ok := execOf(f.Name()); ok && f.Type().IsRegular() {
			if info, err := f.Info(); err == nil { // else it has just been deleted
				enter(byExec, exec, info.Size(), age(info.ModTime()))
			}
		}
	}
	list := make([]Entry, 0, len(byExec))
	for _, e := range byExec {
		list = append(list, *e)
	}
	slices.SortFunc(list, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Quiet, a.Quiet), strings.Compare(a.Exec, b.Exec))
	})
	return list, nil
}

// execOf returns the run that a file belongs to. The store neither counts nor
// deletes other files in its directory.
func execOf(file string) (exec string, ok bool) {
	ext := filepath.Ext(file)
	exec = strings.TrimSuffix(file, ext)
	return exec, (ext == logExt || ext == indexExt || ext == recordsExt) && isName(exec)
}

func enter(byExec map[string]*Entry, exec string, size int64, age time.Duration) {
	e := byExec[exec]
	if e == nil {
		e = &Entry{Exec: exec, Quiet: age}
		byExec[exec] = e
	}
	e.Size += max(size, fileCost)
	e.Quiet = min(e.Quiet, age)
}

// Tend enforces the limits of the store until ctx is done. It deletes runs older
// than MaxAge, then the oldest ones until the rest fits into MaxTotal and the disk
// has enough free space. It never deletes a run that any process still writes. It
// also creates the files that Prepare requests. Tend blocks until ctx is done.
func (s *Store) Tend(ctx context.Context) {
	s.prepareOnce.Do(s.makePrepared)
	defer s.discardPrepared()
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := s.sweep(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.logger().Warn("cannot sweep the raw logs", "err", err)
		}
		s.wait(ctx, ticker.C)
	}
}

// wait returns when the next sweep is due or ctx is done. Meanwhile it serves the
// requests of Prepare.
func (s *Store) wait(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			return
		case <-s.sweepRequests():
			return
		case draw := <-s.prepareAsked:
			select {
			case <-time.After(preparePause):
				s.fillPrepared(draw)
			case <-ctx.Done():
			}
		}
	}
}

// sweep enforces the limits of the store once.
func (s *Store) sweep(ctx context.Context) error {
	list, err := s.List()
	if err != nil {
		return err
	}
	total := int64(0)
	for _, e := range list {
		total += e.Size
	}
	for _, e := range list {
		old := e.Quiet > s.maxAge()
		if ctx.Err() != nil || !old && total <= s.maxTotal() && s.checkRoom() == nil {
			return nil // the remaining runs are younger
		}
		if s.Written(e.Exec) {
			continue
		}
		if err := s.remove(e.Exec); err != nil {
			return err
		}
		total -= e.Size
	}
	return nil
}

// Written reports whether this process or another one may still write the log of a
// run.
func (s *Store) Written(exec string) bool {
	if s.writing(exec) != nil {
		return true
	}
	index, err := open(s.base(exec) + indexExt)
	if err != nil {
		return false // a run without an index has ended, or its output is only counted
	}
	defer index.Close()
	return locked(index)
}

// remove deletes the files of a run, the index last: alone it still tells how the run
// ended.
func (s *Store) remove(exec string) error {
	for _, ext := range []string{recordsExt, logExt, indexExt} {
		if err := os.Remove(s.base(exec) + ext); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// checkRoom returns an error if the disk has no space left for logs. A disk of
// unknown size has space.
func (s *Store) checkRoom() error {
	space, err := Room(s.Dir)
	if floor := min(maxFloor, space.All/floorShare); err == nil && space.Free < floor {
		return fmt.Errorf("the disk of %s has %d bytes free, and logs must leave %d bytes free", s.Dir, space.Free, floor)
	}
	return nil
}

// grew counts stored bytes and requests a sweep when there are many.
func (s *Store) grew(n int) {
	if s.grown.Add(int64(n)) >= s.maxTotal()/sweepShare {
		s.grown.Store(0)
		s.requestSweep()
	}
}
