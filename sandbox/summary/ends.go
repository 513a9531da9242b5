package summary

import "slices"

// An ends stores the first and the last of many lines.
type ends struct {
	first []line
	last  []line // a ring once it is full
	next  int    // the slot of last that is written next
}

func (e *ends) add(l line, mostFirst, mostLast int) {
	switch {
	case len(e.first) < mostFirst:
		e.first = append(e.first, l)
	case len(e.last) < mostLast:
		e.last = append(e.last, l)
	default:
		e.last[e.next] = l
		e.next = (e.next + 1) % mostLast
	}
}

// at returns a stored line.
func (e *ends) at(n int) (line, bool) {
	for _, list := range [][]line{e.first, e.last} {
		if i := slices.IndexFunc(list, func(l line) bool { return l.n == n }); i >= 0 {
			return list[i], true
		}
	}
	return line{}, false
}
