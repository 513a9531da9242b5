package hostcode

// Known is what earlier looks found. It is used by one goroutine.
type Known struct {
	places   map[string]Place
	complete bool
}

// Learn takes a first look for what is known.
func Learn(f Found) *Known {
	k := &Known{places: map[string]Place{}, complete: f.Complete()}
	k.merge(f)
	return k
}

// News returns the paths that a look found and the ones before it did not, or as
// others, in their order. Of a repository that is new the rest is not named. blind
// says that this look was the first that did not see all.
func (k *Known) News(f Found) (paths []string, blind bool) {
	repos := map[string]bool{} // that are new
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

// merge takes a look over. One that did not see all says nothing of what is gone.
func (k *Known) merge(f Found) {
	if f.Complete() {
		clear(k.places)
	}
	for _, p := range f.Places {
		k.places[p.Path] = p
	}
}
