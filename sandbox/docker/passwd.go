package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// nameUser gives the box's user and group names where the image has none for their
// ids: without one, whoami fails.
func (l *Launcher) nameUser(e *engine, p *plan) error {
	passwd, group, changed := p.facts.addUser(p.request.UID, p.request.GID)
	p.user = userName(passwd, p.request.UID)
	if !changed {
		return nil
	}
	if p.facts.Odd || !e.local() {
		p.user = ""
		p.notes = l.notes.add(p.notes, fmt.Sprintf("Image %s has no name for user %d, so whoami fails in the box.", p.request.ImageName, p.request.UID))
		return nil
	}
	sum := sha256.Sum256([]byte(passwd + "\x00" + group))
	dir, err := l.dirs.cacheDir("users", hex.EncodeToString(sum[:8]))
	if err != nil {
		return fmt.Errorf("name the box's user: %w", err)
	}
	for name, text := range map[string]string{"passwd": passwd, "group": group} {
		if exists(filepath.Join(dir, name)) {
			continue
		}
		if err := writeFile(dir, name, []byte(text), 0o644); err != nil {
			return fmt.Errorf("name the box's user: %w", err)
		}
	}
	p.request.Passwd, p.request.Group = filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
	return nil
}

// addUser returns the image's passwd and group with lines for a user, and whether
// that changed them.
func (f facts) addUser(uid, gid int) (passwd, group string, changed bool) {
	passwd, group = f.Passwd, f.Group
	if !slices.Contains(column(passwd, 2), strconv.Itoa(uid)) {
		name := freeName("agent", uid, column(passwd, 0))
		passwd = addLine(passwd, fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh", name, uid, gid, home))
		changed = true
	}
	if !slices.Contains(column(group, 2), strconv.Itoa(gid)) {
		group = addLine(group, fmt.Sprintf("%s:x:%d:", freeName("agent", gid, column(group, 0)), gid))
		changed = true
	}
	return passwd, group, changed
}

// userName returns the first name of a user, "" if there is none.
func userName(passwd string, uid int) string {
	names, uids := column(passwd, 0), column(passwd, 2)
	if i := slices.Index(uids, strconv.Itoa(uid)); i >= 0 && i < len(names) {
		return sanitize(names[i], 64)
	}
	return ""
}

// column returns one of the first three fields of each line that has them.
func column(table string, n int) (fields []string) {
	for row := range strings.Lines(table) {
		if f := strings.Split(strings.TrimSuffix(row, "\n"), ":"); len(f) > 2 {
			fields = append(fields, f[n])
		}
	}
	return fields
}

// freeName returns a name that is not in used.
func freeName(name string, id int, used []string) string {
	for slices.Contains(used, name) {
		name += strconv.Itoa(id)
	}
	return name
}

func addLine(table, row string) string {
	if table != "" && !strings.HasSuffix(table, "\n") {
		table += "\n"
	}
	return table + row + "\n"
}
