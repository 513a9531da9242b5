package summary

// A template is a set of lines that are the same but for numbers in them.
type template struct {
	count       int
	louds       int    // of those, the ones in which there may be a failure
	hits        int    // of those, the ones in which a rule found one
	first, last int    // lines
	sample      string // the first of them
}

// templates counts lines by template. Those that came too late for the room
// are not counted; loud ones have room of their own.
type templates struct {
	table map[uint64]*template
	mask  masker
}

const (
	maxQuiet    = 3072
	maxLoud     = 4096
	quietSample = 240
	loudSample  = 480
)

func newTemplates(mask masker) templates { return templates{make(map[uint64]*template), mask} }

// add counts a line and returns its template.
func (t templates) add(n int, text []byte, loud bool) *template {
	hash := templateHash(text)
	e := t.table[hash]
	if e == nil {
		if len(t.table) >= maxQuiet && (!loud || len(t.table) >= maxLoud) {
			return &template{count: 1}
		}
		e = &template{first: n, sample: t.sampleOf(text, loud)}
		t.table[hash] = e
	}
	e.count++
	e.last = n
	if loud {
		e.louds++
	}
	return e
}

// of returns the template of a line, nil where it was not counted.
func (t templates) of(text string) *template { return t.table[templateHash([]byte(text))] }

// sampleOf is the line, or its beginning, and then masked before it is cut.
func (t templates) sampleOf(text []byte, loud bool) string {
	room := quietSample
	if loud {
		room = loudSample
	}
	if len(text) <= room {
		return string(text)
	}
	line := t.mask.line(string(text))
	if len(line) <= room {
		return line
	}
	return wholeRunes([]byte(line[:room])) + clip
}

const prime = 0x100000001b3

// templateHash is FNV-1a over a line in which each run of digits, and each
// hexadecimal word of eight and more with a digit in it, is one sign.
func templateHash(text []byte) uint64 {
	hash := uint64(0xcbf29ce484222325)
	before := hash // the current word
	length, hexOnly, digits := 0, true, false
	inDigits := false
	for _, b := range text {
		class := classes[b]
		if class == separator {
			if length >= 8 && hexOnly && digits {
				hash = (before ^ '#') * prime
			}
			hash = (hash ^ uint64(b)) * prime
			before, length, hexOnly, digits, inDigits = hash, 0, true, false, false
			continue
		}
		length++
		if class == digit {
			digits = true
			if !inDigits {
				hash = (hash ^ '0') * prime
			}
			inDigits = true
			continue
		}
		inDigits = false
		hexOnly = hexOnly && class == hexLetter
		hash = (hash ^ uint64(b)) * prime
	}
	if length >= 8 && hexOnly && digits {
		hash = (before ^ '#') * prime
	}
	return hash
}

type class uint8

const (
	separator class = iota
	digit
	hexLetter
	letter
)

var classes = func() (c [256]class) {
	for b := range c {
		switch {
		case b >= '0' && b <= '9':
			c[b] = digit
		case b|0x20 >= 'a' && b|0x20 <= 'f':
			c[b] = hexLetter
		case b|0x20 > 'f' && b|0x20 <= 'z' || b >= 0x80:
			c[b] = letter
		}
	}
	return c
}()
