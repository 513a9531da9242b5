package summary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A jsonScan reads output that is one JSON value on a single line. It collects
// members: those near the top, and those whose names suggest an outcome.
type jsonScan struct {
	margin  int
	state   jsonState
	stack   []byte // of { and [
	lengths []int  // commas in the arrays of stack
	names   []string

	wantKey   bool
	escaped   bool
	recording bool   // raw holds the current member
	raw       []byte // the current member, from its key on
	word      []byte // the current string
	key       []byte

	members []member
	arrays  []string // notes on arrays near the top
}

type jsonState int

const (
	jsonStart jsonState = iota
	jsonBetween
	jsonString
	jsonScalar // a number, true, false or null
	jsonOver   // the value is complete
	jsonNot    // the output is not one JSON value
)

type member struct {
	n     int // in order
	text  string
	worth int
}

const (
	maxMembers = 64
	maxMember  = 160 // bytes of a member; a margin more is stored: see masker
	maxDepth   = 64
	maxArrays  = 6
	noteDepth  = 3 // maximum depth of arrays whose lengths are shown
)

func (j *jsonScan) read(p []byte) {
	for len(p) > 0 && j.state != jsonNot {
		if j.state == jsonString && !j.escaped {
			n := stringRun(p)
			j.record(p[:n])
			if p = p[n:]; len(p) == 0 {
				return
			}
		}
		j.step(p[0])
		p = p[1:]
	}
}

// stringRun returns the number of bytes at the beginning of p that only continue a string.
func stringRun(p []byte) int {
	for i, b := range p {
		if b == '"' || b == '\\' || b < ' ' {
			return i
		}
	}
	return len(p)
}

// most is the maximum number of stored bytes of a member.
func (j *jsonScan) most() int { return maxMember + j.margin }

// record stores bytes of a string, up to the limits.
func (j *jsonScan) record(p []byte) {
	if j.recording {
		j.raw = append(j.raw, p[:min(len(p), j.most()-len(j.raw))]...)
	}
	if j.wantKey {
		j.word = append(j.word, p[:max(0, min(len(p), maxMember-len(j.word)))]...)
	}
}

func (j *jsonScan) step(b byte) {
	if b < ' ' && b != '\n' && b != '\t' && j.state != jsonOver {
		j.state = jsonNot // a terminal would show something else
		return
	}
	if j.recording && len(j.raw) < j.most() {
		j.raw = append(j.raw, b)
	}
	switch j.state {
	case jsonString:
		j.inString(b)
	case jsonScalar:
		if b == ',' || b == '}' || b == ']' || b <= ' ' {
			j.endMember(1)
			j.state = jsonBetween
			j.between(b)
		}
	case jsonOver:
		if b > ' ' {
			j.state = jsonNot
		}
	default:
		j.between(b)
	}
}

func (j *jsonScan) inString(b byte) {
	switch {
	case j.escaped:
		j.escaped = false
	case b == '\\':
		j.escaped = true
	case b == '"':
		j.state = jsonBetween
		if j.wantKey {
			j.key = append(j.key[:0], j.word...)
		} else {
			j.endMember(0)
		}
		return
	}
	if j.wantKey && len(j.word) < maxMember {
		j.word = append(j.word, b)
	}
}

// between reads a byte outside of strings, numbers and words.
func (j *jsonScan) between(b byte) {
	if j.state == jsonStart && b > ' ' && b != '{' && b != '[' {
		j.state = jsonNot
		return
	}
	switch b {
	case ' ', '\t', '\r', '\n':
	case '{', '[':
		j.open(b)
	case '}', ']':
		j.close()
	case ':':
		j.wantKey = false
	case ',':
		j.lengths[len(j.lengths)-1]++
		j.wantKey = j.stack[len(j.stack)-1] == '{'
	case '"':
		j.state = jsonString
		j.word = j.word[:0]
		if j.wantKey {
			j.recording, j.raw = len(j.members) < maxMembers, append(j.raw[:0], b)
		}
	default:
		j.state = jsonScalar
	}
}

func (j *jsonScan) open(b byte) {
	if len(j.stack) >= maxDepth {
		j.state = jsonNot
		return
	}
	j.state = jsonBetween
	j.stack = append(j.stack, b)
	j.lengths = append(j.lengths, 0)
	name := ""
	if len(j.stack) <= noteDepth {
		name = string(j.key)
	}
	j.names = append(j.names, name)
	j.wantKey, j.recording = b == '{', false
}

func (j *jsonScan) close() {
	last := len(j.stack) - 1
	if last < 0 {
		j.state = jsonNot
		return
	}
	if j.stack[last] == '[' && last < noteDepth && j.lengths[last] > 0 && len(j.arrays) < maxArrays {
		name := j.names[last]
		if len(name) >= maxMember {
			name = clip // the name may be cut
		}
		j.arrays = append(j.arrays, strings.TrimSpace(fmt.Sprintf("%s [%d]", name, j.lengths[last]+1)))
	}
	j.stack, j.lengths, j.names = j.stack[:last], j.lengths[:last], j.names[:last]
	j.recording, j.wantKey = false, false
	if last == 0 {
		j.state = jsonOver
	}
}

// endMember stores a complete member, without the bytes read after it.
func (j *jsonScan) endMember(behind int) {
	if !j.recording {
		return
	}
	j.recording = false
	if len(j.raw) == j.most() {
		j.addMember(wholeRunes(j.raw), seam)
	} else {
		j.addMember(string(j.raw[:len(j.raw)-behind]), "")
	}
}

func (j *jsonScan) addMember(text, end string) {
	worth := memberWorth(string(j.key), slices.Contains(j.stack, '['), len(j.stack))
	if worth == 0 || len(j.members) >= maxMembers || !plain([]byte(text)) {
		return
	}
	j.members = append(j.members, member{len(j.members), text + end, worth})
}

// telling are names of members that suggest an outcome.
var telling = []string{"error", "message", "msg", "code", "status", "total", "count", "reason", "detail", "fail", "critical", "severity", "result", "title", "exception"}

func memberWorth(key string, inArray bool, depth int) int {
	worth := max(0, 3-depth)
	if hasAny(strings.ToLower(key), telling) {
		worth += 2
	}
	if inArray {
		worth -= 2
	}
	return max(0, worth)
}

// pick picks the most valuable members as one line, in order, and notes the lengths of
// the arrays.
func (j *jsonScan) pick(p *picker) {
	note := ""
	if len(j.arrays) > 0 {
		note = p.mask.text("arrays: " + strings.Join(j.arrays, ", "))
		note = clipped(note, min(len(note), p.room/4))
	}
	room := p.room - len("1: \n") - len(note)
	list := slices.Clone(j.members)
	slices.SortStableFunc(list, func(a, b member) int { return cmp.Compare(b.worth, a.worth) })
	var chosen []member
	for _, m := range list {
		m.text = p.mask.line(m.text)
		if len(m.text) > maxMember {
			m.text = wholeRunes([]byte(m.text[:maxMember]))
		}
		if room -= len(m.text) + len(clip); room < len(clip) {
			break
		}
		chosen = append(chosen, m)
	}
	slices.SortFunc(chosen, func(a, b member) int { return cmp.Compare(a.n, b.n) })
	text := clip
	for _, m := range chosen {
		text += m.text + clip
	}
	p.picks = append(p.picks, pick{1, text})
	p.more = note
	p.room -= len("1: \n") + len(text) + len(note)
}

// hasMembers reports whether the output was one JSON value with members to show.
func (j *jsonScan) hasMembers() bool { return j.state == jsonOver && len(j.members) > 0 }
