package policy

import (
	"slices"
	"strings"
)

// options are the grammar of a guarded program: the options that it may get, and
// which of them take a value. Every other option is refused, abbreviations of long
// options too, so that an option which is missing from the table runs nothing.
//
// The check must tell values from options as the program does: in -e -- -Ox the --
// is the value of -e, and -Ox is an option. Two rules hold even if a grammar gets
// this wrong. A value in a word of its own never begins with a dash, and no word
// after a -- does if the word before the -- is an option.
type options struct {
	flags  string // letters that take no value
	values string // letters with a value in the same word or the next
	glued  string // letters with an optional value in the same word
	long   string // names; with = they take a value, with ? an optional one after a =

	only    map[string]string // the allowed values of an option, by its name; "" is for all operands
	unknown string            // names of options whose value may contain expansions in quotes
	dashed  string            // names of options whose value may begin with a dash: they take one in all versions

	// A program writes the values of output options, and the operands from outputFrom on,
	// counted from 1. See checker.outputs, which checks these paths.
	output     string // names of options
	outputFrom int    // 0 if no operand is an output path
	outputHere bool   // without any of these paths, it writes to its directory
	dir        string // the directory that relative output paths are in, if an option changes it

	operandsEnd bool // the first operand ends the options, as with wrappers
	numbers     bool // -5 is an option
	negated     bool // if --x is an option, --no-x is one too
}

type option struct{ name, value string }

// parse splits arguments into options and operands.
func (o options) parse(words []word) (given []option, operands []word, err error) {
	afterOption := false
	for len(words) > 0 {
		w := words[0]
		switch {
		case w.text == "--" && w.static:
			operands = append(operands, words[1:]...)
			if i := slices.IndexFunc(words[1:], dashes); afterOption && !o.operandsEnd && i >= 0 {
				return nil, nil, denied("Write an operand before the --, or remove the word with the dash.", "%s is not allowed after --: -- may be the value of the option before it", words[1+i].raw)
			}
			return given, operands, nil
		case w.text == "-" || !dashes(w):
			if o.operandsEnd {
				return given, append(operands, words...), nil
			}
			operands, words, afterOption = append(operands, w), words[1:], false
			continue
		case !w.static:
			return nil, nil, denied("Write the value out, or put it after --.", "%s may expand to an option, so its value must be constant", w.raw)
		}
		more, rest, err := o.option(words)
		if err != nil {
			return nil, nil, err
		}
		given, words, afterOption = append(given, more...), rest, true
	}
	return given, operands, nil
}

// dashes reports whether a word is, or may be, an option.
func dashes(w word) bool { return !w.static || len(w.text) > 1 && w.text[0] == '-' }

// option reads one word of options, with the value of the last one.
func (o options) option(words []word) (given []option, rest []word, err error) {
	w := words[0]
	next := o.cluster
	if strings.HasPrefix(w.text, "--") {
		next = o.longOption
	} else if o.numbers && isNumber(w.text[1:]) {
		return []option{{"number", w.text[1:]}}, words[1:], nil
	}
	given, rest, ok := next(words)
	if !ok {
		return nil, nil, unknownOption(w)
	}
	last := given[len(given)-1]
	if len(words)-len(rest) > 1 {
		if v := words[1]; !v.static && !(v.single && slices.Contains(strings.Fields(o.unknown), last.name)) {
			return nil, nil, denied("Write it out, in quotes if necessary.", "the value of %s must be constant, got %s", w.raw, v.raw)
		} else if v.static && dashes(v) && !slices.Contains(strings.Fields(o.dashed), last.name) {
			return nil, nil, denied("Write it in the same word as the option, after = for a long one.", "%s is not allowed after %s: a value that begins with a dash may be an option", v.raw, w.raw)
		}
	}
	for _, g := range given {
		if allowed, ok := o.only[g.name]; ok && !slices.Contains(strings.Fields(allowed), g.value) {
			return nil, nil, denied("Allowed: "+allowed+".", "%s is not allowed for %s", g.value, w.raw)
		}
	}
	return given, rest, nil
}

func unknownOption(w word) error {
	return denied("Remove it. Write long options in full.", "the option %s is not known to be harmless", w.raw)
}

func (o options) longOption(words []word) (given []option, rest []word, ok bool) {
	name, value, hasValue := strings.Cut(words[0].text[2:], "=")
	known := strings.Fields(o.long)
	switch {
	case slices.Contains(known, name+"?"), !hasValue && slices.Contains(known, name):
		return []option{{name, value}}, words[1:], true
	case !slices.Contains(known, name+"="):
		positive, no := strings.CutPrefix(name, "no-")
		same := func(n string) bool { return strings.TrimRight(n, "?=") == positive }
		return []option{{name, ""}}, words[1:], no && o.negated && !hasValue && slices.ContainsFunc(known, same)
	case hasValue:
		return []option{{name, value}}, words[1:], true
	case len(words) > 1:
		return []option{{name, words[1].text}}, words[2:], true
	}
	return nil, nil, false
}

// cluster reads a word with several short options, such as -xzf.
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
