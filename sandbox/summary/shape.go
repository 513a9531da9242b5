package summary

import (
	"cmp"
	"slices"
	"strings"
)

// shape returns what a line has in common with similar ones: its words without names,
// paths, numbers and quoted text. If nothing is left, a value has its name for a shape, and
// a finding its code. Frames of stacks and paths have none: one stands for all.
func shape(text string) string {
	if said := saidText(text); said != "" {
		text = said
	}
	var words []string
	for _, w := range strings.Fields(unquoted(text)) {
		w = strings.ToLower(strings.Trim(w, `.,:;()[]{}<>"'*`))
		if w != "" && !isName(w) {
			words = append(words, w)
		}
	}
	key := strings.Join(words, " ")
	if !lettered().MatchString(key) {
		if m := namedValue().FindStringSubmatch(text); m != nil {
			return masked(m[1])
		}
		if placedTitle().MatchString(text) {
			return masked(text)
		}
	}
	return key
}

// saidText returns what a record of JSON says, without the quotation marks.
func saidText(text string) string {
	if !strings.Contains(text, `":`) {
		return ""
	}
	var said []string
	for _, m := range saidMember().FindAllStringSubmatch(text, 3) {
		said = append(said, m[1])
	}
	return strings.Join(said, " ")
}

// saidMember matches a member of a record that says what happened.
var saidMember = re(`"(?:msg|message|err|error|reason|title|detail)"\s*:\s*"((?:[^"\\]|\\.)+)`)

var (
	lettered = re(`\pL{2}`)
	// namedValue matches a value after its name.
	namedValue = re(`^\s*([\pL_][^\s/.()"]*)\s*[=:\s]\s*[-+]?\.?\d`)
)

// shapeOf returns the shape of a line of the output.
func shapeOf(l line) string { return shape(unwrapped(beginning(l.text, maxRuleText))) }

// unquoted returns a text without what stands in quotation marks.
func unquoted(text string) string { return quotedText().ReplaceAllString(text, " ") }

var quotedText = re("\"[^\"]*\"|'[^' ]*'|`[^`]*`|‘[^’]*’|“[^”]*”")

// isName reports whether a word names a thing: a path, an identifier, a number.
func isName(w string) bool {
	return strings.ContainsAny(w, "0123456789") || strings.HasPrefix(w, "/") || strings.HasPrefix(w, "./") ||
		strings.Contains(w, "_") || strings.Contains(w, "/") && strings.Contains(w, ".") || strings.Contains(w[1:], ".")
}

// shapes returns the shapes of the picked lines.
func (p *picker) shapes() map[string]bool {
	shown := make(map[string]bool)
	for _, k := range p.picks {
		shown[shape(k.text)] = true
	}
	return shown
}

// spread moves failures that are similar to an earlier one of the same weight behind
// all others of that weight, and counts them at the earlier one.
func spread(list []*failure) []*failure {
	var sorted []*failure
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].weight == list[0].weight {
			n++
		}
		sorted = append(sorted, distinctFirst(list[:n])...)
		list = list[n:]
	}
	return sorted
}

func distinctFirst(list []*failure) (sorted []*failure) {
	first := make(map[string]*failure)
	var rest []*failure
	for _, f := range list {
		key := shapeOf(f.parts[0].line)
		for _, p := range f.parts[1:] {
			if p.role == message {
				key += "\n" + shapeOf(p.line)
			}
		}
		if e := first[key]; e != nil {
			e.similar++
			f.like = e
			rest = append(rest, f)
			continue
		}
		first[key] = f
		sorted = append(sorted, f)
	}
	small := func(a, b *failure) int { return cmp.Compare(rarity(a.group().similar), rarity(b.group().similar)) }
	slices.SortStableFunc(sorted, func(a, b *failure) int { return cmp.Or(cmp.Compare(b.severity, a.severity), small(a, b)) })
	slices.SortStableFunc(rest, small)
	return append(sorted, rest...)
}

// group returns the first failure that is similar.
func (f *failure) group() *failure {
	if f.like != nil {
		return f.like
	}
	return f
}
