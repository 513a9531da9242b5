package summary

// Digest ends the output, as Summary does, and returns what a model needs to write a
// better summary: the built-in one, and the lines that may matter.
func (s *Summarizer) Digest(exit Exit) Digest {
	d := Digest{Cmd: s.mask.text(s.options.Cmd), Want: s.mask.text(s.options.Want), Exit: exit, Summary: s.Summary(exit), Lines: s.lines, Bytes: s.bytes}
	if s.binary == "" {
		d.Kept = s.digestLines()
		d.Failures = s.pickedFailures()
		d.Wanted = s.want.named()
	}
	return d
}

// pickedFailures returns the lines of the summary that belong to failures which rules found.
func (s *Summarizer) pickedFailures() (list []int) {
	failing := make(map[int]bool)
	for _, f := range s.failures(s.candidates()) {
		for _, x := range f.parts {
			failing[x.n] = failing[x.n] || f.weight >= logged
		}
	}
	for _, n := range s.picked {
		if failing[n] {
			list = append(list, n)
		}
	}
	return list
}

// digestLines returns lines of the output in order. Failures get half of the budget,
// then both ends, then all other kinds of lines.
func (s *Summarizer) digestLines() string {
	p := picker{room: s.options.Kept, mask: s.mask}
	p.width = min(s.clean.buf.longest(), max(wideLine, p.room/max(1, s.lines)))
	all := s.candidates()
	failures := s.failures(all)
	p.holding(p.room*3/4, func() { s.pickWanted(&p) })
	s.pickAllParts(&p, failures, p.room/2)
	s.pickEnds(&p, 10, 30)
	for _, k := range []kind{tally, erred, doubtful, warned, resultLine} {
		pickWholeKind(&p, all, k)
	}
	s.pickAllParts(&p, failures, 0)
	s.pickEnds(&p, headLines, ringLines)
	pickWholeKind(&p, all, plainLine)
	return p.String()
}

// pickAllParts picks all parts of failures while the budget is larger than least.
func (s *Summarizer) pickAllParts(p *picker, list []*failure, least int) {
	for _, f := range list {
		for _, x := range f.parts {
			if p.room <= least {
				return
			}
			p.pickIndented(x.line, f.repeatNote(x))
		}
	}
}

// pickEnds picks lines from both ends, the last ones first.
func (s *Summarizer) pickEnds(p *picker, head, tail int) {
	for n := s.tail.last; n > s.tail.last-tail && n >= s.tail.from(); n-- {
		l, _ := s.tail.at(n)
		p.pickIndented(l, "")
	}
	for _, l := range s.head[:min(head, len(s.head))] {
		p.pickIndented(l, "")
	}
}

func pickWholeKind(p *picker, all []candidate, k kind) {
	for _, c := range all {
		if c.kind == k {
			p.pickIndented(c.line, repeated(c.count, c.n, c.last))
		}
	}
}
