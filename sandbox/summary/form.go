package summary

// A form is what lines have in common whose words differ, names for example: their
// punctuation. In an output of many lines of one form, those of another one matter.
type form struct {
	templates int       // of this form; once there are too many, lines
	only      *template // its line, if the templates were full before
}

// forms counts templates by the hash of their form.
type forms map[uint64]*form

const (
	maxForms = 1024
	// manyTemplates is the number of templates from which on most are of one form.
	manyTemplates = 100
	rareForm      = 2  // templates of a rare form
	commonForm    = 30 // and of a common one, at least
	formPart      = 96 // bytes of a line that make its form
)

// add counts a template by its first line and returns its form, or nil if there are
// too many forms.
func (f forms) add(text []byte) *form {
	hash := formHash(text)
	e := f[hash]
	if e == nil {
		if len(f) >= maxForms {
			return nil
		}
		e = new(form)
		f[hash] = e
	}
	e.templates++
	return e
}

// uniform reports whether most lines of many templates have one form.
func (f forms) uniform() bool {
	all, most := 0, 0
	for _, e := range f {
		all += e.templates
		most = max(most, e.templates)
	}
	return all >= manyTemplates && 2*most >= all
}

// rare reports whether hardly any template has the form.
func (f *form) rare() bool { return f != nil && f.templates <= rareForm }

// common reports whether so many templates have the form that none of them is a result
// of the whole.
func (f *form) common() bool { return f != nil && f.templates > commonForm }

// formHash is a hash of the punctuation of a line, in which each word is one sign.
func formHash(text []byte) uint64 {
	text = text[:min(len(text), formPart)]
	hash, word := uint64(0), false
	for _, b := range text {
		if classes[b] != separator {
			word = true
			continue
		}
		if word {
			hash = hash*31 + 'w'
		}
		word = false
		hash = hash*31 + uint64(b)
	}
	return mix(hash, 0)
}
