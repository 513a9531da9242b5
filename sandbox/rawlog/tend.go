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
	// tendEvery is how often the store is looked over: other processes may
	// write to it, and logs age.
	tendEvery = time.Minute

	// tendShare is the part of MaxTotal after whose growth it is looked over
	// earlier. So the logs take at most a sixteenth more than they may.
	tendShare = 16

	// maxFloor is how much of a disk is left to others: enough for a system to
	// go on. On a small disk it is a twentieth, floorShare.
	maxFloor   = 256 << 20
	floorShare = 20

	// roomStep is how much of a run is kept between two looks at the disk, and
	// so what every run may keep, however full the disk is.
	roomStep = 1 << 20

	// fileCost is what a file takes on disk at least, whatever its size: a
	// block.
	fileCost = 4 << 10
)

// An Entry is a run in the store.
type Entry struct {
	Exec  string
	Size  int64         // of its files
	Quiet time.Duration // for how long none of them was written, at least
}

// List returns the runs of the store, the one that was quiet for longest first.
func (s *Store) List() ([]Entry, error) {
	files, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	byExec, age := map[string]*Entry{}, s.aging()
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

// execOf returns the run that a file belongs to. Whatever else lies in the
// directory is not ours to count, and never to delete.
func execOf(file string) (exec string, ok bool) {
	ext := filepath.Ext(file)
	exec = strings.TrimSuffix(file, ext)
	return exec, (ext == logExt || ext == indexExt) && isName(exec)
}

// aging returns what tells how old a file of some date is now.
func (s *Store) aging() (age func(dated time.Time) time.Duration) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ages.look(now)
	ages := ager{s.ages.began, slices.Clone(s.ages.settings)}
	return func(dated time.Time) time.Duration { return ages.age(now, dated) }
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

// Tend keeps the store within its limits until ctx is done: it deletes what is
// older than MaxAge, and of the rest the oldest until MaxTotal is kept and the
// disk has room for others; never a run that is still written, by whatever
// process. Meanwhile it makes what Prepare asks for. Whoever calls it waits for it.
func (s *Store) Tend(ctx context.Context) {
	s.spares.Do(s.makeRoomForSpares)
	defer s.discardSpares()
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := s.sweep(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.logger().Warn("raw logs cannot be tidied", "err", err)
		}
		s.rest(ctx, ticker.C)
	}
}

// rest returns when it is time for the next sweep, or for none.
func (s *Store) rest(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			return
		case <-s.sweepSoon():
			return
		case draw := <-s.sparesAsked:
			select {
			case <-time.After(sparePause):
				s.addSpares(draw)
			case <-ctx.Done():
			}
		}
	}
}

// sweep deletes once what is too much.
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
			return nil // what follows is younger
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

// Written reports whether the log of a run may still grow, here or by another
// process.
func (s *Store) Written(exec string) bool {
	if s.writing(exec) != nil {
		return true
	}
	index, err := open(s.base(exec) + indexExt)
	if err != nil {
		return false // a run without an index ended, or its log is counted only
	}
	defer index.Close()
	return claimed(index)
}

// remove deletes the log first: an index alone tells at least how a run ended.
func (s *Store) remove(exec string) error {
	for _, ext := range []string{logExt, indexExt} {
		if err := os.Remove(s.base(exec) + ext); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// checkRoom returns an error where the disk has no room left for logs. A disk
// that does not tell counts as one that has.
func (s *Store) checkRoom() error {
	space, err := Room(s.Dir)
	if floor := min(maxFloor, space.All/floorShare); err == nil && space.Free < floor {
		return fmt.Errorf("the disk of %s has %d bytes left, and the last %d are not for logs", s.Dir, space.Free, floor)
	}
	return nil
}

// grew counts what logs took, and has the store looked over when it is much.
func (s *Store) grew(n int) {
	if s.grown.Add(int64(n)) >= s.maxTotal()/tendShare {
		s.grown.Store(0)
		s.askForSweep()
	}
}

func (s *Store) askForSweep() {
	select {
	case s.sweepSoon() <- struct{}{}:
	default: // it is asked for already
	}
}

func (s *Store) sweepSoon() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sweepAsked == nil {
		s.sweepAsked = make(chan struct{}, 1)
	}
	return s.sweepAsked
}

// writing returns the log of a run that this store writes, or nil.
func (s *Store) writing(exec string) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs[exec]
}

func (s *Store) begin(exec string, l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ages.look(time.Now())
	if s.logs == nil {
		s.logs = map[string]*Log{}
	}
	s.logs[exec] = l
}

func (s *Store) end(exec string, l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ages.look(time.Now()) // its date is of the clock as it is set now
	if s.logs[exec] == l {
		delete(s.logs, exec)
	}
}
