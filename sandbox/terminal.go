package sandbox

// Changed returns a channel that is closed when the run prints something or ends.
func (r *Run) Changed() <-chan struct{} { return r.changed() }
