package summary

import (
	"encoding/binary"
	"math/bits"
)

// A template is a set of lines that differ only in numbers.
type template struct {
	count       int
	louds       int    // lines of these that may contain a failure
	hits        int    // lines of these in which a rule found one
	first, last int    // line numbers
	sample      string // the first line
	final       []byte // the last line, if there are several and it is short
	form        *form  // nil: there are too many
}

// templates counts lines by template. The number of templates is bounded: later ones
// are not counted. Loud ones have a higher bound.
type templates struct {
	table map[uint64]*template
	forms forms
	mask  masker
}

const (
	maxQuiet    = 3072
	maxLoud     = 4096
	quietSample = 240
	loudSample  = 480
)

func newTemplates(mask masker) templates {
	return templates{make(map[uint64]*template), make(forms), mask}
}

// add counts a line and returns its template, or nil if the table is full.
func (t templates) add(n int, text []byte, loud bool) *template {
	hash := templateHash(text)
	e := t.table[hash]
	if e == nil {
		full := len(t.table) >= maxQuiet && (!loud || len(t.table) >= maxLoud)
		var f *form
		if !full || !loud { // rules read the loud ones
			f = t.forms.add(text)
		}
		if full {
			if f != nil && f.templates == 1 { // nothing like it so far
				f.only = &template{count: 1, first: n, last: n, sample: t.sampleOf(text, loud), form: f}
			}
			return nil
		}
		e = &template{first: n, sample: t.sampleOf(text, loud), form: f}
		t.table[hash] = e
	} else if e.hits == 0 {
		e.setFinal(text)
	}
	e.count++
	e.last = n
	if loud {
		e.louds++
	}
	return e
}

func (e *template) setFinal(text []byte) {
	e.final = e.final[:0]
	if len(text) <= quietSample {
		e.final = append(e.final, text...)
	}
}

// of returns the template of a line, or nil if it was not counted.
func (t templates) of(text string) *template { return t.table[templateHash([]byte(text))] }

// sampleOf returns the line, or its beginning. A long record loses what says nothing while
// it is still complete. It is masked before, as half of a secret has no form.
func (t templates) sampleOf(text []byte, loud bool) string {
	room := quietSample
	if loud {
		room = loudSample
	}
	if len(text) > room && text[0] == '{' {
		text = []byte(members(t.mask.line(string(text))))
	}
	return t.mask.sample(text, room)
}

// templateHash is a hash of a line in which each run of digits, and each
// hexadecimal word of eight and more with a digit in it, is one sign. What
// stands between words with digits is hashed by eight bytes, wherever it stands.
func templateHash(text []byte) uint64 {
	hash := uint64(0)
	for {
		i := nextDigit(text)
		if i == len(text) {
			return hashText(hash, text)
		}
		from, to, hex := wordAround(text, i)
		hash = hashText(hash, text[:from])
		if hex && to-from >= 8 {
			hash = mix(hash, '#')
		} else {
			hash = hashWord(hash, text[from:to])
		}
		text = text[to:]
	}
}

// wordAround returns where the word around text[i] begins and ends, and whether
// it is of hexadecimal digits alone.
func wordAround(text []byte, i int) (from, to int, hex bool) {
	hex = true
	for from = i; from > 0 && classes[text[from-1]] != separator; from-- {
		hex = hex && classes[text[from-1]] != letter
	}
	for to = i; to < len(text) && classes[text[to]] != separator; to++ {
		hex = hex && classes[text[to]] != letter
	}
	return from, to, hex
}

// hashWord hashes a word, each run of digits in it as one.
func hashWord(hash uint64, word []byte) uint64 {
	var signs uint64
	n, before := 0, separator
	for _, b := range word {
		c := classes[b]
		if c == digit && before == digit {
			continue
		}
		if before = c; c == digit {
			b = '0'
		}
		if signs = signs<<8 | uint64(b); n%8 == 7 {
			hash = mix(hash, signs)
		}
		n++
	}
	return mix(hash, signs<<8|uint64(n&7))
}

func hashText(hash uint64, text []byte) uint64 {
	for ; len(text) >= 8; text = text[8:] {
		hash = mix(hash, binary.LittleEndian.Uint64(text))
	}
	var rest uint64
	for _, b := range text {
		rest = rest<<8 | uint64(b)
	}
	return mix(hash, rest<<8|uint64(len(text)))
}

func mix(hash, x uint64) uint64 {
	hi, lo := bits.Mul64(hash^x^0xa0761d6478bd642f, 0xe7037ed1a0b428db)
	return hi ^ lo
}

// nextDigit returns the index of the first digit, eight bytes at a time.
func nextDigit(text []byte) int {
	i := 0
	for ; i+8 <= len(text); i += 8 {
		x := binary.LittleEndian.Uint64(text[i:]) ^ every('0') // digits are below 10 now
		if found := (x - every(10)) &^ x & every(0x80); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(text) && classes[text[i]] != digit {
		i++
	}
	return i
}

// every is a word of eight such bytes.
func every(b byte) uint64 { return uint64(b) * 0x0101010101010101 }

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
