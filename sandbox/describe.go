package sandbox

import "time"

// A Description is what a reader may know of a box, with its secrets masked.
type Description struct {
	ID      string
	Name    string // may be empty
	Image   string // empty where the backend has none
	Started time.Time

	Dir       string // in which commands start
	Workspace string // the directory of the host that the box shares; may be empty
	Backend   string
	Notes     []string

	Running    int           // commands
	Persistent time.Duration // for how long the box waits for a server, or unused; 0 where it is not persistent
}

// Describe describes the box.
func (b *Box) Describe() Description {
	return Description{
		ID: b.ID, Name: b.secrets.Text(b.Name), Image: b.secrets.Text(b.Place.Image), Started: b.Started,
		Dir: b.Place.Dir, Workspace: b.Place.Workspace, Backend: b.Place.Backend, Notes: b.Place.Notes,
		Running: b.Live(), Persistent: b.ReattachTimeout(),
	}
}

// Isolates reports whether boxes are isolated from the host.
func (m *Manager) Isolates() bool {
	isolator, ok := m.Launcher.(Isolator)
	return ok && isolator.Isolates()
}
