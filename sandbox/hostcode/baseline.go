package hostcode

// Baseline is what earlier scans found. Only one goroutine may use it.
type Baseline struct {
	places   map[string]Place
	complete bool
}

// NewBaseline returns the Baseline of a first scan.
func NewBaseline(f Found) *Baseline {
	k := &Baseline{places: map[string]Place{}, complete: f.Complete()}
	k.merge(f)
	return k
}

// Changes returns, in order, the paths of places that are new or changed since earlier
// scans, and adds the scan to the Baseline. For a new repository only its own path is
// returned. blind means that this scan is incomplete and
// the one before was complete.
func (k *Baseline) Changes(f Found) (paths []string, blind bool) {
	repos := map[string]bool{} // those that are new
	for _, p := range f.Places {
		if _, old := k.places[p.Path]; p.Kind == Repo && !old {
			repos[p.Path] = true
		}
	}
	for _, p := range f.Places {
		before, known := k.places[p.Path]
		if known && before == p {
			continue
		}
		if repos[p.Repo] && p.Path != p.Repo {
			continue
		}
		paths = append(paths, p.Path)
	}
	blind = k.complete && !f.Complete()
	k.complete = f.Complete()
	k.merge(f)
	return paths, blind
}

// merge adds a scan. An incomplete scan does not prove that a place is gone.
func (k *Baseline) merge(f Found) {
	if f.Complete() {
		clear(k.places)
	}
	for _, p := range f.Places {
		k.places[p.Path] = p
	}
}
