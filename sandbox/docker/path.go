package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// A pathMemo remembers which path works for an engine, so that the next
// process need not wait for a socket in vain.
type pathMemo struct {
	Path  string
	Until time.Time
}

// pathLife is how long that is believed: a day after a change of the machine
// everything is found out anew.
const pathLife = 24 * time.Hour

// path returns the way to try first on an engine, and whether it is the only
// one.
func (l *Launcher) path(e *engine) (path string, sure bool) {
	switch {
	case l.config.Transport != "":
		return l.config.Transport, true
	case !canSocket || !strings.HasPrefix(e.endpoint.Host, "unix://"):
		return pathRelay, true
	}
	if l.rememberedPath(e) == pathRelay {
		return pathRelay, true
	}
	return pathSocket, false
}

func (l *Launcher) rememberedPath(e *engine) string {
	l.mu.Lock()
	path := l.paths[e.key()]
	l.mu.Unlock()
	if path != "" {
		return path
	}
	var memo pathMemo
	if l.load("engines", e.key(), &memo) && time.Now().Before(memo.Until) {
		path = memo.Path
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paths[e.key()] = path
	return path
}

// rememberPath notes that a path worked. One that was forced proves nothing,
// and a relay after sockets had worked was an accident.
func (l *Launcher) rememberPath(e *engine, path string) {
	if l.config.Transport != "" || l.rememberedPath(e) != "" {
		return
	}
	l.mu.Lock()
	l.paths[e.key()] = path
	l.mu.Unlock()
	l.store("engines", e.key(), pathMemo{Path: path, Until: time.Now().Add(pathLife)})
}

// key names an engine on disk: the same address may lead to another one later.
func (e *engine) key() string {
	sum := sha256.Sum256([]byte(e.endpoint.Host + "\x00" + e.info.ID))
	return hex.EncodeToString(sum[:16])
}
