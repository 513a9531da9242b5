package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/warmbox/warmbox/filelock"
	"github.com/warmbox/warmbox/sandbox"
)

// Of the programs of a user that live at once, one has the kept box of a name: an
// agent has one host, so they could not share it, and with two of one name nobody
// could say which the next program gives back. The name is held by a lock, as long
// as its program has the box; one that waits for somebody holds none.

// takeName takes the name of a kept box, one that is to be made too.
func (l *Launcher) takeName(ctx context.Context, e *engine, id string, k sandbox.Persistent) (*lock, error) {
	dir, err := l.ownDir("names")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{e.identity(), k.Principal, k.Name}, "\x00")))
	path := filepath.Join(dir, hex.EncodeToString(sum[:16]))
	name, err := waitLock(ctx, path)
	if errors.Is(err, filelock.ErrHeld) {
		return nil, sandbox.Errorf(sandbox.InvalidArgument, "Choose another name, or end that program: it leaves the box to the next one that asks for the name.",
			"the name %q is taken: %s has a kept box of that name", clean(k.Name, maxLabel), holder(path))
	}
	if err != nil {
		return nil, err
	}
	if err := name.write(fmt.Sprintf("%d %s", os.Getpid(), id)); err != nil {
		return nil, errors.Join(err, name.remove())
	}
	dropNames(dir)
	return name, nil
}

// holder says who has a name.
func holder(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "another warmbox"
	}
	defer f.Close()
	var pid int
	var box string
	if _, err := fmt.Fscan(io.LimitReader(f, maxNoted), &pid, &box); err != nil {
		return "another warmbox"
	}
	return fmt.Sprintf("another warmbox (process %d, box %s)", pid, clean(box, maxLabel))
}

// dropNames removes the names that killed programs had. Where one stays nobody
// minds.
func dropNames(dir string) {
	names, _ := os.ReadDir(dir)
	for _, n := range names {
		if name, err := tryLock(filepath.Join(dir, n.Name()), 0); err == nil {
			name.remove()
		}
	}
}

// giveName lets the name of a box go, if that has one.
func (b *box) giveName() error {
	if b.name == nil {
		return nil
	}
	return b.name.remove()
}
