package sandbox

import (
	"errors"
	"io/fs"
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
	// lookDelay lets the reply to a command, and often the next command, go before
	// a look in the background.
	lookDelay = 20 * time.Millisecond

	// lookShare is the part of one processor that looks at a workspace may take
	// while commands run one after another: a fiftieth.
	lookShare = 50

	maxNews   = 20 // paths that a News names
	maxDuring = 5  // commands that it names
)

// A lookout watches what of a workspace a program on the host may run later: the
// protected paths, and what git executes. A backend keeps commands from what was
// there when their box started, where it can; what comes later they
// can change, so that it is reported.
//
// It looks beside commands and never in their way: after they ended, or when
// somebody wants the news. While nothing runs it does nothing. A nil lookout has
// nothing to watch.
type lookout struct {
	box   *Box
	dir   string
	paths []string // protected, without those that begin with "!"
	spare []string // what is left out of it all

	mu      sync.Mutex
	known   *hostcode.Baseline // used by who looks
	looks   map[string]look    // at those paths that were there; likewise
	cost    time.Duration      // of the last look
	next    time.Time          // when the next one in the background may begin
	timer   *time.Timer        // nil where none is to come
	looking chan struct{}      // closed when the look under way has ended; nil where none is
	ended   []string           // commands that ended since the last look began; some
	more    int                // how many others
	news    Changes            // not yet reported
	closed  bool
}

// A look is what of a file a change shows in. What it holds is not read: it is
// as hostile as what a command prints, and may be large.
type look struct {
	mode fs.FileMode
	size int64
	time time.Time
}

// ChangesMessage is the message of the log that tells of News when they are found.
const ChangesMessage = "workspace changed where the host may run it"

// Changes is what appeared in a workspace, or became another, that the host may run,
// whoever did it. Its paths are a stranger's words.
type Changes struct {
	Paths []string // in the workspace; some, in their order
	More  int      // how many others
	Gone  []string // those of Paths that are not there any more
	Blind bool     // from now on not all of the workspace is looked at

	During     []string // commands of the box that ran in the time in which it happened
	MoreDuring int
}

// None reports whether there is nothing to tell.
func (n Changes) None() bool { return len(n.Paths) == 0 && n.More == 0 && !n.Blind }

func (n *Changes) add(m Changes) {
	n.Paths, n.More = merge(n.Paths, n.More, m.Paths, m.More, maxNews)
	n.Gone, _ = merge(n.Gone, 0, m.Gone, 0, maxNews)
	n.During, n.MoreDuring = merge(n.During, n.MoreDuring, m.During, m.MoreDuring, maxDuring)
	n.Blind = n.Blind || m.Blind
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

// newLookout watches what commands of a box could change and people use: a
// workspace that somebody named.
func newLookout(b *Box, spec Spec) *lookout {
	if !Watched(spec) || b.Place.Workspace == "" {
		return nil
	}
	l := &lookout{box: b, dir: b.Place.Workspace}
	l.paths, l.spare = Protected(spec.Protect)
	found := b.Place.Found
	if found == nil {
		found = new(hostcode.Scan(l.dir, l.paths...))
	}
	if !found.Complete() {
		b.Place.Notes = append(slices.Clip(b.Place.Notes), noteUnseen(*found))
	}
	l.known, l.cost, l.looks = hostcode.NewBaseline(*found), found.Took, l.look()
	return l
}

// Watched reports whether a workspace has anything to protect: who protects nothing
// is not told of anything either.
func Watched(spec Spec) bool {
	return spec.Workspace != "" && !spec.ReadOnly && len(spec.Protect) > 0
}

// Protected tells the paths of a list from those that it leaves out, which begin
// with "!".
func Protected(list []string) (paths, spare []string) {
	for _, p := range list {
		if out, ok := strings.CutPrefix(p, "!"); ok {
			spare = append(spare, path.Clean(filepath.ToSlash(out)))
		} else {
			paths = append(paths, p)
		}
	}
	return slices.DeleteFunc(paths, func(p string) bool { return Excluded(spare, path.Clean(filepath.ToSlash(p))) }), spare
}

// ScanWorkspace finds what of a workspace the host may execute besides the protected paths
// themselves.
func ScanWorkspace(dir string, protect []string) hostcode.Found {
	paths, _ := Protected(protect)
	return hostcode.Scan(dir, paths...)
}

// Excluded reports whether a path is one of those that are left out, or in one.
func Excluded(spare []string, name string) bool {
	return slices.ContainsFunc(spare, func(s string) bool { return name == s || strings.HasPrefix(name, s+"/") })
}

func noteUnseen(f hostcode.Found) string {
	var names []string
	for _, name := range f.Unseen {
		names = append(names, QuotePath(name))
	}
	s := "Not all of the workspace was looked at for what git on the user's machine may execute (" + limits() + "). Left out: " + strings.Join(names, ", ")
	if f.More > 0 {
		s += " and " + itoa(f.More) + " more"
	}
	return s + "."
}

func limits() string {
	return "a look takes at most " + itoa(hostcode.MaxEntries) + " entries and " + hostcode.MaxTime.String() + ", and what the user may read"
}

// look costs a few system calls for each path, and follows no link out of the
// workspace.
func (l *lookout) look() map[string]look {
	looks := make(map[string]look, len(l.looks))
	for path, info := range lstat(l.dir, l.paths) {
		looks[path] = look{info.Mode(), info.Size(), info.ModTime()}
	}
	return looks
}

// lstat tells of those paths of a workspace that are there.
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

// stands reports whether at the protected paths there is what there was before the
// box started: a mount over one that was replaced is gone, and one that is new has
// none. What is in a directory may change.
func (l *lookout) stands(before map[string]fs.FileInfo) bool {
	return maps.EqualFunc(before, lstat(l.dir, l.paths), func(a, b fs.FileInfo) bool {
		return os.SameFile(a, b) && (a.IsDir() || a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()))
	})
}

// knows reports whether a look found nothing that was not there when the box started.
// No command has run in the box, and no other look is under way.
func (l *lookout) knows(f hostcode.Found) bool {
	paths, blind := l.known.Changes(f)
	return !blind && !slices.ContainsFunc(paths, func(name string) bool { return !Excluded(l.spare, name) && !hostcode.Transient(name) })
}

// wake has the workspace looked at soon, since a command has ended.
func (l *lookout) wake(exec string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.ended, exec) {
		l.ended, l.more = merge(l.ended, l.more, []string{exec}, 0, maxDuring)
	}
	l.arm()
}

// arm sets the next look. The caller holds l.mu.
func (l *lookout) arm() {
	if l.timer == nil && l.looking == nil && !l.closed && len(l.ended) > 0 {
		l.timer = time.AfterFunc(max(lookDelay, time.Until(l.next)), func() {
			l.mu.Lock()
			l.timer = nil
			l.mu.Unlock()
			l.watch(false)
		})
	}
}

// watch looks once, unless a look is under way. The last time is when the box has ended.
func (l *lookout) watch(last bool) {
	l.mu.Lock()
	if l.looking != nil || l.closed && !last {
		l.mu.Unlock()
		return
	}
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	done := make(chan struct{})
	l.looking = done
	news := Changes{During: l.ended, MoreDuring: l.more}
	l.ended, l.more = nil, 0
	l.mu.Unlock()

	for _, r := range l.box.all() {
		news.During, news.MoreDuring = merge(news.During, news.MoreDuring, []string{r.ID}, 0, maxDuring)
	}
	begin := time.Now()
	l.since(&news)
	if !news.None() {
		l.box.logger.Warn(ChangesMessage, "paths", l.masked(news.Paths), "more", news.More, "during", news.During, "blind", news.Blind)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.cost = time.Since(begin)
	l.next = time.Now().Add(lookShare * l.cost)
	if !news.None() {
		l.news.add(news)
	}
	l.looking = nil
	close(done)
	l.arm()
}

// since looks, and adds what is not as it was. One that is gone does no harm.
// Whoever works in the workspace on the host changes it too: it is no proof of what
// a command did.
func (l *lookout) since(news *Changes) {
	before := l.looks
	l.looks = l.look()
	paths, blind := l.known.Changes(hostcode.Scan(l.dir, l.paths...))
	for name, is := range l.looks {
		if is != before[name] {
			paths = append(paths, path.Clean(name))
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	news.Blind = blind
	var top []string
	for _, name := range paths {
		if Excluded(l.spare, name) || Excluded(top, name) {
			continue // what it is in is named
		}
		top = append(top, name)
		if len(news.Paths) < maxNews {
			news.Paths = append(news.Paths, name)
		} else {
			news.More++
		}
	}
}

// take returns the news that was not reported yet. It waits so long for a look at what
// commands have done since the last one, where a look mostly takes no longer.
func (l *lookout) take(patience time.Duration) (news Changes) {
	if l == nil {
		return Changes{}
	}
	if looked := l.begin(patience); looked != nil {
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case <-looked:
		case <-late.C:
		}
	}
	l.mu.Lock()
	news, l.news = l.news, Changes{}
	l.mu.Unlock()
	if len(news.Paths) > 0 {
		l.settle(&news)
	}
	return news
}

// settle says which of the news are not there any more, and leaves out what git's own
// commands put there and took away.
func (l *lookout) settle(news *Changes) {
	there := func(string) bool { return false }
	if root, err := os.OpenRoot(l.dir); err == nil {
		defer root.Close()
		there = func(name string) bool {
			_, err := root.Lstat(filepath.FromSlash(name))
			return !errors.Is(err, fs.ErrNotExist)
		}
	}
	var left, gone []string
	for _, name := range news.Paths {
		is := there(name)
		if !is && hostcode.Transient(name) {
			continue
		}
		left = append(left, name)
		if !is {
			gone = append(gone, name)
		}
	}
	news.Paths, news.Gone = l.masked(left), l.masked(gone)
	if news.None() {
		*news = Changes{}
	}
}

func (l *lookout) masked(names []string) (list []string) {
	for _, name := range names {
		list = append(list, l.box.secrets.Text(name))
	}
	return list
}

// begin begins a look where one is due, and returns what is closed at the end of the
// one that is under way, nil where none is worth waiting for.
func (l *lookout) begin(patience time.Duration) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case patience <= 0 || l.cost > patience || l.closed:
		return nil
	case l.looking != nil:
		return l.looking
	case len(l.ended) == 0 && !l.box.busy():
		return nil
	}
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		l.watch(false)
	}()
	return looked
}

// close ends the watch when the box has ended, with a last look at what its
// commands did.
func (l *lookout) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	looking := l.looking
	l.mu.Unlock()
	if looking != nil {
		<-looking
	}
	l.mu.Lock()
	due := len(l.ended) > 0
	l.mu.Unlock()
	if due {
		l.watch(true)
	}
}

// Changes returns what has appeared in the workspace that the host may run, and nobody
// was told yet. It waits at most so long for a look that is due.
func (b *Box) Changes(patience time.Duration) Changes { return b.lookout.take(patience) }

// Changes returns the news of all boxes of an owner, those too that have ended.
func (m *Manager) Changes(owner Owner, patience time.Duration) (news Changes) {
	m.mu.Lock()
	m.late = slices.DeleteFunc(m.late, func(n lateNews) bool {
		if owner.reaches(n.owner) {
			news.add(n.Changes)
			return true
		}
		return false
	})
	m.mu.Unlock()
	boxes := m.Boxes(owner)
	list := make([]Changes, len(boxes))
	var wg sync.WaitGroup
	for i, b := range boxes {
		wg.Go(func() { list[i] = b.Changes(patience) })
	}
	wg.Wait()
	for _, n := range list {
		news.add(n)
	}
	return news
}

// lateNews is news of a box that has ended.
type lateNews struct {
	owner Owner
	Changes
}

// inherit keeps the news of a box that has ended. The caller holds m.mu.
func (m *Manager) inherit(owner Owner, news Changes) {
	const most = 64
	if news.None() {
		return
	}
	if len(m.late) == most {
		m.late = slices.Delete(m.late, 0, 1)
	}
	m.late = append(m.late, lateNews{owner, news})
}
