package summary

// A ring stores the last lines.
type ring struct {
	texts [ringLines][]byte
	last  int // the number of the last line
}

const ringLines = 60

func (r *ring) add(n int, text []byte) {
	slot := &r.texts[n%ringLines]
	*slot = append((*slot)[:0], text...)
	r.last = n
}

// at returns a line if it is still stored.
func (r *ring) at(n int) (line, bool) {
	if n < 1 || n > r.last || n <= r.last-ringLines {
		return line{}, false
	}
	return line{n, string(r.texts[n%ringLines])}, true
}

// from returns the number of the first stored line.
func (r *ring) from() int { return max(1, r.last-ringLines+1) }
