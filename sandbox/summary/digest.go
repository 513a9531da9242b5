package summary

// Digest ends the output, as Summary does, and tells what a model needs of it to
// write a better summary: the built-in one, and the lines that may matter.
func (s *Summarizer) Digest(exit Exit) Digest {
	d := Digest{Cmd: s.mask.text(s.options.Cmd), Exit: exit, Summary: s.Summary(exit), Lines: s.lines, Bytes: s.bytes}
	if s.binary == "" {
		d.Kept = s.kept()
	}
	return d
}

// kept returns lines of the output in order: failures first come by half of the
// room, then both ends, then whatever else speaks for itself.
func (s *Summarizer) kept() string {
	p := picker{room: s.options.Kept, mask: s.mask}
	p.width = min(s.clean.buf.longest(), max(wideLine, p.room/max(1, s.lines)))
	all := s.candidates()
	failures := s.failures(all)
	s.keepFailures(&p, failures, p.room/2)
	s.keepEnds(&p, 10, 30)
	for _, k := range []kind{tally, erred, doubtful, warned, resultLine} {
		keepKind(&p, all, k)
	}
	s.keepFailures(&p, failures, 0)
	s.keepEnds(&p, headLines, ringLines)
	keepKind(&p, all, plainLine)
	return p.String()
}

// keepFailures takes all parts of failures while there is more room than least.
func (s *Summarizer) keepFailures(p *picker, list []*failure, least int) {
	for _, f := range list {
		for _, x := range f.parts {
			if p.room <= least {
				return
			}
			p.keep(x.line, f.note(x))
		}
	}
}

// keepEnds takes so many lines from either end, the last ones first.
func (s *Summarizer) keepEnds(p *picker, head, tail int) {
	for n := s.tail.last; n > s.tail.last-tail && n >= s.tail.from(); n-- {
		l, _ := s.tail.at(n)
		p.keep(l, "")
	}
	for _, l := range s.head[:min(head, len(s.head))] {
		p.keep(l, "")
	}
}

func keepKind(p *picker, all []candidate, k kind) {
	for _, c := range all {
		if c.kind == k {
			p.keep(c.line, repeated(c.count, c.n, c.last))
		}
	}
}
