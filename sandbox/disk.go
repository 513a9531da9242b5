package sandbox

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmbox/warmbox/sandbox/policy"
	"github.com/warmbox/warmbox/sandbox/rawlog"
)

const (
	// diskShare is the part of a disk that is kept free at most, a twentieth. What is
	// little on a large disk would be all of a small one.
	diskShare = 20

	// fillRate is how fast a disk is taken to fill, in bytes a nanosecond: 8 GB/s
	// is what four lanes of PCIe 4.0 carry, and more than one core can write.
	fillRate = 8

	// fileBytes is how many bytes of a floor keep one file free too. Of so many bytes
	// ext4 makes one inode by default, so a disk whose files are used
	// up by usual ones is as full either way.
	fileBytes = 16 << 10

	// fileRate is how fast a disk's files are taken to be used up: one a microsecond
	// is what a tmpfs makes on a few cores, and ten times what ext4 makes on one.
	fileRate = time.Microsecond

	// A disk is measured again after the time that it takes to fill up to its floor,
	// within these bounds. A measurement costs 2 µs and a wake-up. The longest pause is
	// short because no rate bounds what fallocate takes, which writes nothing.
	shortestPause = 20 * time.Millisecond
	longestPause  = 2 * time.Second
)

// A diskWatch keeps the commands of a box from filling disks of this machine: a
// workspace has no size of its own. While one has less room than its floor, what
// runs is killed, and nothing begins but what makes room. It measures only while
// something runs. A nil one watches nothing.
type diskWatch struct {
	most int64    // of a floor, in bytes
	dirs []string // on the disks
	room func(dir string) (rawlog.Space, error)
	log  *slog.Logger

	// Only the box knows what runs in it.
	busy  func() bool     // reports whether anything does
	evict func(why error) // kills what does, but for what makes room

	awake atomic.Bool              // a measurement is due
	low   atomic.Pointer[shortage] // that the last measurement found, nil for none; before the first, any
}

// fillable returns the directories of this machine to which a box can write: the
// workspace and the writable mounts. The box can fill their disks. A box on another
// machine has none: its backend names no workspace here.
func fillable(spec Spec, place Place) (dirs []string) {
	if place.Workspace == "" {
		return nil
	}
	if !spec.ReadOnly {
		dirs = append(dirs, place.Workspace)
	}
	for _, m := range spec.Mounts {
		if m.Writable {
			dirs = append(dirs, m.Source)
		}
	}
	return dirs
}

func newDiskWatch(b *Box, most int64, dirs []string) *diskWatch {
	if most <= 0 || len(dirs) == 0 {
		return nil
	}
	w := &diskWatch{most: most, dirs: dirs, room: rawlog.Room, log: b.logger, busy: b.busy, evict: b.evict}
	w.low.Store(new(shortage))
	return w
}

// admit refuses a command while a disk is low, unless all that it does is make
// room: else only the user could.
func (w *diskWatch) admit(c Command) error {
	if w == nil || w.low.Load() == nil {
		return nil
	}
	low, _ := w.measure() // the last measurement is of before the last command ended
	w.low.Store(low)
	if low == nil || tidies(c) {
		return nil
	}
	return low.errorf("no command can begin that may write")
}

// wake has the disks measured soon. The box's runs are known by now.
func (w *diskWatch) wake() {
	if w != nil && w.awake.CompareAndSwap(false, true) {
		time.AfterFunc(shortestPause, w.check)
	}
}

// check ends what runs where a disk is low, and is called again while something runs.
func (w *diskWatch) check() {
	low, soon := w.measure()
	was := w.low.Swap(low)
	if low != nil {
		if was == nil {
			w.log.Warn("disk low, commands are killed", "dir", low.dir, "free", low.free, "floor", low.floor, "files", low.files)
		}
		w.evict(low.errorf("the command was killed, with every process that it had started"))
	}
	if w.rest() {
		return
	}
	time.AfterFunc(min(max(soon, shortestPause), longestPause), w.check)
}

// rest reports whether nothing runs, so that no measurement is needed before wake. What
// begins meanwhile either is seen here or wakes it.
func (w *diskWatch) rest() bool {
	if w.busy() {
		return false
	}
	w.awake.Store(false)
	return !w.busy() || !w.awake.CompareAndSwap(false, true)
}

// measure returns the first shortage that it finds, nil for none, and how soon there
// may be one. A disk that cannot be measured counts as one with room.
func (w *diskWatch) measure() (low *shortage, soon time.Duration) {
	soon = math.MaxInt64
	for _, dir := range w.dirs {
		space, err := w.room(dir)
		if err != nil {
			continue
		}
		bytes := shortage{dir: dir, free: space.Free, floor: min(w.most, space.All/diskShare)}
		soon = min(soon, time.Duration(bytes.above()/fillRate))
		if bytes.above() < 0 && low == nil {
			low = &bytes
		}
		if space.AllFiles <= 0 {
			continue // files are made as they are wanted
		}
		files := shortage{dir: dir, files: true, free: space.FreeFiles, floor: min(w.most/fileBytes, space.AllFiles/diskShare)}
		soon = min(soon, time.Duration(min(files.above(), int64(longestPause/fileRate)))*fileRate)
		if files.above() < 0 && low == nil {
			low = &files
		}
	}
	return low, soon
}

// A shortage is a disk with less room than its floor.
type shortage struct {
	dir         string
	files       bool // of files; else of bytes
	free, floor int64
}

// above is how much there is beyond the floor.
func (s shortage) above() int64 { return s.free - s.floor }

// errorf says of a shortage what came of it.
func (s *shortage) errorf(what string) *Error {
	const hint = "Delete files with rm, which may still run; du, ls, find and df%s show what uses the disk. Or have the owner free space on that disk, or set a smaller min_free."
	if s.files {
		return Errorf(LimitReached, fmt.Sprintf(hint, " -i"),
			"%s: the disk of %s on the user's machine has room for %d more files (inodes), and room for %d must stay free", what, s.dir, s.free, s.floor)
	}
	return Errorf(LimitReached, fmt.Sprintf(hint, ""),
		"%s: the disk of %s on the user's machine has %s free, and %s must stay free", what, s.dir, megabytes(s.free), megabytes(s.floor))
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/(1<<20)) }

// tidying are the programs that only look and delete, whatever options the policy lets them have.
var tidying = []string{
	"rm", "rmdir", "ls", "du", "df", "cd", "pwd", "find", "stat", "cat", "head", "tail", "wc", "grep", "cut", "tr", "echo", "true",
}

// tidies reports whether a command can do nothing but look and delete. A named shell may have
// made something else of the names.
func tidies(c Command) bool {
	list := policy.Commands{Allow: tidying}
	if sortsOnly(c.Cmd) {
		list.Allow = append(list.Allow[:len(list.Allow):len(list.Allow)], "sort")
	}
	return c.Shell == "" && !redirects(c.Cmd) && list.Check(c.Cmd, c.Env) == nil
}

// sortsOnly reports whether sort in a command names no output file and no directory for temporary
// ones, which the policy allows.
func sortsOnly(cmd string) bool {
	if strings.ContainsAny(cmd, "\"'`\\${}*?[]") {
		return false // a word may not be what it looks like
	}
	for _, word := range strings.Fields(cmd) {
		if strings.HasPrefix(word, "-") && (strings.ContainsAny(word, "oT") || strings.HasPrefix(word, "--t")) {
			return false
		}
	}
	return true
}

// redirects reports whether a command may write to a file by a redirection, other than /dev/null.
func redirects(cmd string) bool {
	for _, word := range strings.Fields(cmd) {
		switch strings.TrimRight(word, ";") {
		case ">/dev/null", "2>/dev/null", "&>/dev/null", "2>&1":
		default:
			if strings.Contains(word, ">") {
				return true
			}
		}
	}
	return false
}

// evict ends all that runs in the box but what makes room. Of a resumed run not all
// is known that it was started with.
func (b *Box) evict(why error) {
	for _, r := range b.all() {
		if r.resumed != nil || !tidies(r.Command) {
			r.evict(why)
		}
	}
}
