package sandbox

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/hostcode"
)

const (
	// scanDelay lets the reply to a command, and often the next command, go before
	// a scan in the background.
	scanDelay = 20 * time.Millisecond

	// scanShare is the part of one processor that scans of a workspace may take
	// while commands run one after another: a fiftieth.
	scanShare = 50

	maxChanges = 20 // paths that a Changes names
	maxDuring  = 5  // commands that it names
)

// A watcher reports what of a workspace a program on the host may run later: the
// protected paths, and what git executes. A backend keeps commands from changing what
// was there when their box started, where it can. What appears later they can change,
// so it is reported.
//
// It scans beside commands and never delays them: after they ended, or when a call
// asks for changes. While nothing runs it does nothing. A nil watcher has nothing to
// watch.
type watcher struct {
	dir      string
	paths    []string // protected, without those that begin with "!"
	excluded []string // of all paths
	mask     func(string) string
	log      *slog.Logger
	runs     func() []string // ids of the commands of the box that run now: only the box knows them

	mu       sync.Mutex
	known    *hostcode.Baseline // used by the scan under way
	files    map[string]file    // at those paths that were there; likewise
	cost     time.Duration      // of the last scan
	next     time.Time          // when the next one in the background may begin
	timer    *time.Timer        // nil where none is due
	scanning chan struct{}      // closed when the scan under way has ended; nil where none is
	ended    []string           // commands that ended since the last scan began; some
	more     int                // how many others
	changes  Changes            // not yet reported
	closed   bool
}

// A file is what of a file a change shows in. Its content is not read: it is
// as hostile as what a command prints, and may be large.
type file struct {
	mode fs.FileMode
	size int64
	time time.Time
}

// ChangesMessage is the message of the log when changes are found.
const ChangesMessage = "workspace changed where the host may run it"

// Changes is what appeared in a workspace, or became another, that the host may run,
// by a command or by a program of the host. Its paths are hostile text.
type Changes struct {
	Paths []string // in the workspace; some, in their order
	More  int      // how many others
	Gone  []string // those of Paths that are not there any more
	Blind bool     // from now on not all of the workspace is scanned

	During     []string // commands of the box that ran in the time in which it happened
	MoreDuring int
}

// None reports whether there is no change.
func (c Changes) None() bool { return len(c.Paths) == 0 && c.More == 0 && !c.Blind }

func (c *Changes) add(d Changes) {
	c.Paths, c.More = merge(c.Paths, c.More, d.Paths, d.More, maxChanges)
	c.Gone, _ = merge(c.Gone, 0, d.Gone, 0, maxChanges)
	c.During, c.MoreDuring = merge(c.During, c.MoreDuring, d.During, d.MoreDuring, maxDuring)
	c.Blind = c.Blind || d.Blind
}

// merge adds to a list what is not in it, up to a length, and counts the rest.
func merge(list []string, more int, others []string, moreOthers, most int) ([]string, int) {
	for _, s := range others {
		switch {
		case slices.Contains(list, s):
		case len(list) < most:
			list = append(list, s)
		default:
			more++
		}
	}
	return list, more + moreOthers
}

// newWatcher returns a watcher of what commands of a box could change and people use:
// a workspace that the user named. The notes are for the user.
func newWatcher(b *Box, spec Spec) (w *watcher, notes []string) {
	if !Watched(spec) || b.Place.Workspace == "" {
		return nil, nil
	}
	w = &watcher{dir: b.Place.Workspace, mask: b.secrets.Text, log: b.logger, runs: b.runIDs}
	w.paths, w.excluded = Protected(spec.Protect)
	found := b.Place.Found
	if found == nil {
		found = new(hostcode.Scan(w.dir, w.paths...))
	}
	w.known, w.cost, w.files = hostcode.NewBaseline(*found), found.Took, w.stat()
	if found.Complete() {
		return w, nil
	}
	return w, []string{incomplete(*found)}
}

// Watched reports whether a workspace has anything to protect: where nothing is
// protected, no change is reported either.
func Watched(spec Spec) bool {
	return spec.Workspace != "" && !spec.ReadOnly && len(spec.Protect) > 0
}

// Protected divides a list into protected paths and those that it excludes, which begin
// with "!".
func Protected(list []string) (paths, excluded []string) {
	for _, p := range list {
		if out, ok := strings.CutPrefix(p, "!"); ok {
			excluded = append(excluded, path.Clean(filepath.ToSlash(out)))
		} else {
			paths = append(paths, p)
		}
	}
	return slices.DeleteFunc(paths, func(p string) bool { return Excluded(excluded, path.Clean(filepath.ToSlash(p))) }), excluded
}

// ScanWorkspace finds what of a workspace the host may execute besides the protected paths
// themselves.
func ScanWorkspace(dir string, protect []string) hostcode.Found {
	paths, _ := Protected(protect)
	return hostcode.Scan(dir, paths...)
}

// Excluded reports whether a path is one of those that are excluded, or in one.
func Excluded(excluded []string, name string) bool {
	return slices.ContainsFunc(excluded, func(s string) bool { return name == s || strings.HasPrefix(name, s+"/") })
}

// incomplete is the note of a box whose workspace was not scanned as a whole.
func incomplete(f hostcode.Found) string {
	var names []string
	for _, name := range f.Unseen {
		names = append(names, QuotePath(name))
	}
	s := "Not all of the workspace was scanned for what git on the user's machine may execute (" + limits() + "). Not scanned: " + strings.Join(names, ", ")
	if f.More > 0 {
		s += " and " + itoa(f.More) + " more"
	}
	return s + "."
}

func limits() string {
	return "a scan reads at most " + itoa(hostcode.MaxEntries) + " entries and " + hostcode.MaxTime.String() + ", and what the user may read"
}

// stat costs a few system calls for each path, and follows no link out of the
// workspace.
func (w *watcher) stat() map[string]file {
	files := make(map[string]file, len(w.files))
	for path, info := range lstat(w.dir, w.paths) {
		files[path] = file{info.Mode(), info.Size(), info.ModTime()}
	}
	return files
}

// lstat returns what is at those paths of a workspace that are there.
func lstat(dir string, paths []string) map[string]fs.FileInfo {
	infos := make(map[string]fs.FileInfo, len(paths))
	root, err := os.OpenRoot(dir)
	if err != nil {
		return infos // a workspace that is gone has nothing to protect
	}
	defer root.Close()
	for _, path := range paths {
		if info, err := root.Lstat(filepath.FromSlash(path)); err == nil {
			infos[path] = info
		}
	}
	return infos
}

// unchanged reports whether at the protected paths there is what there was before the
// box started: a mount over one that was replaced is gone, and one that is new has
// none. What is in a directory may change.
func (w *watcher) unchanged(before map[string]fs.FileInfo) bool {
	return maps.EqualFunc(before, lstat(w.dir, w.paths), func(a, b fs.FileInfo) bool {
		return os.SameFile(a, b) && (a.IsDir() || a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()))
	})
}

// knows reports whether a scan found nothing that was not there when the box started.
// No command has run in the box, and no other scan is under way.
func (w *watcher) knows(f hostcode.Found) bool {
	paths, blind := w.known.Changes(f)
	return !blind && !slices.ContainsFunc(paths, func(name string) bool { return !Excluded(w.excluded, name) && !hostcode.Transient(name) })
}

// wake has the workspace scanned soon, since a command has ended.
func (w *watcher) wake(exec string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.ended, exec) {
		w.ended, w.more = merge(w.ended, w.more, []string{exec}, 0, maxDuring)
	}
	w.arm()
}

// arm sets the next scan. The caller holds w.mu.
func (w *watcher) arm() {
	if w.timer == nil && w.scanning == nil && !w.closed && len(w.ended) > 0 {
		w.timer = time.AfterFunc(max(scanDelay, time.Until(w.next)), w.onTimer)
	}
}

func (w *watcher) onTimer() {
	w.mu.Lock()
	w.timer = nil
	w.mu.Unlock()
	w.scan(false)
}

// scan scans once, unless a scan is under way. The last time is when the box has ended.
func (w *watcher) scan(last bool) {
	changes, done := w.beginScan(last)
	if done == nil {
		return
	}
	changes.During, changes.MoreDuring = merge(changes.During, changes.MoreDuring, w.runs(), 0, maxDuring)
	begin := time.Now()
	w.compare(&changes)
	if !changes.None() {
		w.log.Warn(ChangesMessage, "paths", w.masked(changes.Paths), "more", changes.More, "during", changes.During, "blind", changes.Blind)
	}
	w.endScan(changes, time.Since(begin), done)
}

// beginScan claims the scan, and returns the commands that ended before it. done is nil
// where there is to be none.
func (w *watcher) beginScan(last bool) (changes Changes, done chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.scanning != nil || w.closed && !last {
		return Changes{}, nil
	}
	w.stopTimer()
	w.scanning = make(chan struct{})
	changes = Changes{During: w.ended, MoreDuring: w.more}
	w.ended, w.more = nil, 0
	return changes, w.scanning
}

func (w *watcher) endScan(changes Changes, cost time.Duration, done chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cost = cost
	w.next = time.Now().Add(scanShare * cost)
	if !changes.None() {
		w.changes.add(changes)
	}
	w.scanning = nil
	close(done)
	w.arm()
}

// stopTimer stops the scan in the background that is due. The caller holds w.mu.
func (w *watcher) stopTimer() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// compare scans, and adds what is not as it was. One that is gone does no harm.
// People who work in the workspace on the host change it too: it is no proof of what
// a command did.
func (w *watcher) compare(changes *Changes) {
	before := w.files
	w.files = w.stat()
	paths, blind := w.known.Changes(hostcode.Scan(w.dir, w.paths...))
	for name, is := range w.files {
		if is != before[name] {
			paths = append(paths, path.Clean(name))
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	changes.Blind = blind
	var top []string
	for _, name := range paths {
		if Excluded(w.excluded, name) || Excluded(top, name) {
			continue // the directory that it is in is named
		}
		top = append(top, name)
		if len(changes.Paths) < maxChanges {
			changes.Paths = append(changes.Paths, name)
		} else {
			changes.More++
		}
	}
}

// report returns the changes that were not reported yet. It waits at most so long for a
// scan after commands that ran since the last one, where a scan mostly takes no longer.
func (w *watcher) report(wait time.Duration) Changes {
	if w == nil {
		return Changes{}
	}
	if scanned := w.due(wait); scanned != nil {
		late := time.NewTimer(wait)
		defer late.Stop()
		select {
		case <-scanned:
		case <-late.C:
		}
	}
	changes := w.claim()
	if len(changes.Paths) > 0 {
		w.settle(&changes)
	}
	return changes
}

// claim returns the changes that were not reported yet, once.
func (w *watcher) claim() (changes Changes) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes, w.changes = w.changes, Changes{}
	return changes
}

// settle says which of the changes are not there any more, and leaves out what git's own
// commands put there and removed.
func (w *watcher) settle(changes *Changes) {
	there := func(string) bool { return false }
	if root, err := os.OpenRoot(w.dir); err == nil {
		defer root.Close()
		there = func(name string) bool {
			_, err := root.Lstat(filepath.FromSlash(name))
			return !errors.Is(err, fs.ErrNotExist)
		}
	}
	var left, gone []string
	for _, name := range changes.Paths {
		is := there(name)
		if !is && hostcode.Transient(name) {
			continue
		}
		left = append(left, name)
		if !is {
			gone = append(gone, name)
		}
	}
	changes.Paths, changes.Gone = w.masked(left), w.masked(gone)
	if changes.None() {
		*changes = Changes{}
	}
}

func (w *watcher) masked(names []string) (list []string) {
	for _, name := range names {
		list = append(list, w.mask(name))
	}
	return list
}

// due begins a scan where one is due, and returns what is closed at the end of the
// one that is under way, nil where none is worth waiting for.
func (w *watcher) due(wait time.Duration) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case wait <= 0 || w.cost > wait || w.closed:
		return nil
	case w.scanning != nil:
		return w.scanning
	case len(w.ended) == 0 && len(w.runs()) == 0:
		return nil
	}
	scanned := make(chan struct{})
	go func() {
		defer close(scanned)
		w.scan(false)
	}()
	return scanned
}

// close ends the watch when the box has ended, with a last scan of what its
// commands did.
func (w *watcher) close() {
	if w == nil {
		return
	}
	if scanning := w.markClosed(); scanning != nil {
		<-scanning
	}
	if w.unscanned() {
		w.scan(true)
	}
}

// markClosed ends scans in the background, and returns the channel of one under way.
func (w *watcher) markClosed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.stopTimer()
	return w.scanning
}

// unscanned reports whether a command ended since the last scan began.
func (w *watcher) unscanned() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ended) > 0
}

// Changes returns what has appeared in the workspace that the host may run, and was not
// reported yet. It waits at most so long for a scan that is due.
func (b *Box) Changes(wait time.Duration) Changes { return b.watcher.report(wait) }
