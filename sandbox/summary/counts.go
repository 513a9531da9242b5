package summary

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A countedRow is a row of a list of counts, as sort -rn, du and the statistics of linters
// print it: the count, and what it counts.
type countedRow struct {
	line
	count int
}

// countRow matches such a row. Digits with a unit, a clock or a place are no count.
var countRow = re(`^\s*(\d[\d,]*)\s+(?:[^\s\d:.=|/%-]|\.{0,2}/\w).*\S`)

// idHeader matches the header of a table whose first column names its rows.
var idHeader = re(`^\s*(?i:[pug]?id|no\.?|nr\.?|num(?:ber)?|line|index|#)\s+\S`)

const (
	leastRows  = 5 // a shorter list is shown by other means
	showRows   = 4
	nearMargin = 3 // lines before or after a list that begins or ends the output
)

// pickCounts picks the rows with the largest counts of a list at the beginning or the end
// of the output. Of a long list both are retained, and whichever way it is sorted, the
// largest are among them.
func (s *Summarizer) pickCounts(p *picker) {
	var end []line
	for n := s.tail.last; n >= s.tail.from(); n-- {
		l, _ := s.tail.at(n)
		end = append(end, l)
	}
	rows := append(countedRows(s.head), countedRows(end)...)
	slices.SortStableFunc(rows, func(a, b countedRow) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.n, b.n))
	})
	rows = slices.Compact(rows)
	for _, r := range rows[:min(showRows, len(rows))] {
		p.pick(r.line, "")
	}
}

// countedRows returns the unbroken run of rows close to the beginning of some lines, if
// they form a list of counts.
func countedRows(list []line) []countedRow {
	rows := runOfRows(list)
	if len(rows) < leastRows || 2*templatesOf(rows) < len(rows) || enumerated(rows) || alike(rows) {
		return nil
	}
	return rows
}

func runOfRows(list []line) (rows []countedRow) {
	for i, l := range list {
		m := countRow().FindStringSubmatch(unwrapped(beginning(l.text, maxRuleText)))
		switch {
		case m != nil:
			n, _ := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
			rows = append(rows, countedRow{l, n})
		case idHeader().MatchString(l.text):
			return nil
		case len(rows) > 0 || i >= nearMargin:
			return rows
		}
	}
	return rows
}

// templatesOf counts the rows that differ in more than numbers. One message many times is
// no list of counts.
func templatesOf(rows []countedRow) int {
	kinds := make(map[string]bool)
	for _, r := range rows {
		kinds[masked(r.text)] = true
	}
	return len(kinds)
}

// alike reports whether the counts are large and close to each other: clocks, processes.
func alike(rows []countedRow) bool {
	least := slices.MinFunc(rows, func(a, b countedRow) int { return cmp.Compare(a.count, b.count) }).count
	most := slices.MaxFunc(rows, func(a, b countedRow) int { return cmp.Compare(a.count, b.count) }).count
	return least >= 1000 && most < 2*least
}

// enumerated reports whether the counts only number the rows.
func enumerated(rows []countedRow) bool {
	steps := 0
	for i := range rows[1:] {
		if d := rows[i+1].count - rows[i].count; d == 1 || d == -1 {
			steps++
		}
	}
	return 2*steps > len(rows)
}
