package policy

import (
	"slices"
	"strings"
)

// options are those that a guarded program may be given. All others are
// refused, abbreviations of long ones too.
type options struct {
	flags  string // letters that take no value
	values string // letters with a value in the same word or the next
	glued  string // letters whose value, if there is one, is in the same word
	long   string // names; one with = takes a value, one with ? may have one behind a =

	operandsEnd bool // the first operand ends them, as with wrappers
}

type option struct{ name, value string }

// parse splits arguments into options and operands.
func (o options) parse(words []word) (given []option, operands []word, err error) {
	for len(words) > 0 {
		w := words[0]
		switch {
		case w.text == "--":
			return given, append(operands, words[1:]...), nil
		case w.text == "-" || !strings.HasPrefix(w.text, "-"):
			if o.operandsEnd {
				return given, append(operands, words...), nil
			}
			operands = append(operands, w)
			words = words[1:]
			continue
		}
		next := o.cluster
		if strings.HasPrefix(w.text, "--") {
			next = o.longOption
		}
		more, rest, ok := next(words)
		if !ok {
			return nil, nil, denied("", "the option %s is not one that is known to be harmless", w.raw)
		}
		given, words = append(given, more...), rest
	}
	return given, operands, nil
}

func (o options) longOption(words []word) (given []option, rest []word, ok bool) {
	name, value, hasValue := strings.Cut(words[0].text[2:], "=")
	known := strings.Fields(o.long)
	switch {
	case slices.Contains(known, name+"?"), !hasValue && slices.Contains(known, name):
		return []option{{name, value}}, words[1:], true
	case !slices.Contains(known, name+"="):
		return nil, nil, false
	case hasValue:
		return []option{{name, value}}, words[1:], true
	case len(words) > 1:
		return []option{{name, words[1].text}}, words[2:], true
	}
	return nil, nil, false
}

// cluster reads a word such as -xzf.
func (o options) cluster(words []word) (given []option, rest []word, ok bool) {
	text := words[0].text
	for i := 1; i < len(text); i++ {
		letter, value := text[i:i+1], text[i+1:]
		switch {
		case strings.Contains(o.flags, letter):
			given = append(given, option{letter, ""})
		case strings.Contains(o.glued, letter), strings.Contains(o.values, letter) && value != "":
			return append(given, option{letter, value}), words[1:], true
		case strings.Contains(o.values, letter) && len(words) > 1:
			return append(given, option{letter, words[1].text}), words[2:], true
		default:
			return nil, nil, false
		}
	}
	return given, words[1:], true
}

// longAbbreviates reports whether text may be read as the long option name by a
// program that takes abbreviations.
func longAbbreviates(text, name string) bool {
	given, _, _ := strings.Cut(strings.TrimPrefix(text, "--"), "=")
	return strings.HasPrefix(text, "--") && given != "" && strings.HasPrefix(name, given)
}
