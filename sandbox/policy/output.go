package policy

import (
	"slices"
	"strings"
)

// parseArgs parses arguments and checks every path that the program writes, by the output
// fields of its grammar.
func (k *checker) parseArgs(program string, o options, words []word) (given []option, operands []word, err error) {
	given, operands, err = o.parse(words)
	if err != nil {
		return nil, nil, err
	}
	return given, operands, k.outputs(program, o, given, operands)
}

// outputs checks the options and operands that a grammar calls output paths.
func (k *checker) outputs(program string, o options, given []option, operands []word) error {
	var paths []word
	for _, g := range given {
		if slices.Contains(strings.Fields(o.output), g.name) && g.value != "" {
			paths = append(paths, valueWord(g.value))
		}
	}
	if o.outputFrom > 0 && len(operands) >= o.outputFrom {
		paths = append(paths, operands[o.outputFrom-1:]...)
	}
	if o.outputHere && len(paths) == 0 {
		paths = append(paths, valueWord("."))
	}
	for _, w := range paths {
		if o.dir != "" && !strings.HasPrefix(w.text, "/") {
			w.text = o.dir + "/" + w.text
		}
		if err := k.output(program, w); err != nil {
			return err
		}
	}
	return nil
}

// output checks one path that a program writes. A grammar knows which paths these are;
// only this function decides which of them are allowed.
func (k *checker) output(program string, w word) error {
	path := strings.TrimRight(w.text, "/")
	switch {
	case w.static && (w.text == "/dev/null" || w.text == "/dev/stdout" || w.text == "/dev/stderr"):
		return nil
	case !w.static || path != "/tmp" && !writable(word{text: path, glob: w.glob}):
		return denied("Name a path in the workspace that is not in .git and has no .., or a path under /tmp.", "%s must not write %s", program, w.raw)
	case k.directoryUnknown && !strings.HasPrefix(w.text, "/"):
		return denied("Use -exec, or an absolute path.", "%s must not write %s after -execdir or -okdir: the line does not say in which directory", program, w.raw)
	}
	return nil
}

// valueWord returns the value of an option as a word. It is not known whether special
// characters in it were quoted, so they count as a pattern.
func valueWord(value string) word {
	return word{raw: value, text: value, static: true, glob: strings.IndexAny(value, "*?[")}
}

// writable reports whether a word names only files that a listed program may write:
// files of the workspace and of /tmp, except those in a .git directory.
func writable(w word) bool {
	pattern := w.glob >= 0
	if under(w.text, "/tmp") {
		return !pattern && !strings.Contains(w.text, reserved) && !inGit(w)
	}
	return inWorkspace(w.text) && !inGit(w)
}

// inGit reports whether a word may name a .git or a path below one. A pattern matches
// a name with a dot only if it begins with a dot.
func inGit(w word) bool {
	for name := range strings.SplitSeq(w.text, "/") {
		if strings.EqualFold(name, ".git") || w.glob >= 0 && name != "." && strings.HasPrefix(name, ".") {
			return true
		}
	}
	return false
}
