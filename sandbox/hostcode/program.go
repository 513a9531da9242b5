package hostcode

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// maxBases bounds the directories in which the words of one command line are looked up.
const maxBases = 8

// program records the files of the workspace that a command line names. Only the shell
// and the programs know which of them it executes, so every file that a word can mean is
// recorded: in the directory where the command starts, or in a directory that the line
// names before.
func (s *scanner) program(line, git, base string) {
	bases := []string{base}
	if git != base {
		bases = append(bases, git)
	}
	for _, word := range words(line) {
		for _, dir := range bases {
			real, info := s.lstatAt(dir, word, git)
			switch {
			case info == nil:
			case info.Mode().IsRegular():
				s.part(dir, word, git)
			case info.IsDir() && len(bases) < maxBases && !slices.Contains(bases, real):
				bases = append(bases, real)
			}
		}
	}
}

// expansion matches what a shell replaces: $(pwd), `pwd`, $PWD, ${PWD}. variable matches
// only the name of a variable, so that a default value beside it is seen.
var (
	expansion = regexp.MustCompile("\\$\\([^()]*\\)|`[^`]*`|\\$\\{[^{}]*\\}|\\$\\w+|\\$[^({]")
	variable  = regexp.MustCompile(`\$\{\w+:?[-+=?]?|\$\w+`)
)

// words returns the parts of a command line that can name a file: its words as a shell
// splits them, for names with blanks, the text between all characters that are
// special to a shell, and the values that are in one word with short options. Text after an expansion counts as relative, since the expansion
// mostly yields the directory.
func words(line string) (list []string) {
	const maxNested = 4
	outer := line
	for range maxNested {
		outer = expansion.ReplaceAllString(outer, "\x00")
	}
	for _, word := range append(shellWords(outer), strings.FieldsFunc(outer, splits)...) {
		for i, piece := range strings.Split(word, "\x00") {
			if i > 0 {
				piece = strings.TrimLeft(piece, "/")
			}
			list = append(list, piece)
		}
	}
	list = append(list, strings.FieldsFunc(variable.ReplaceAllString(line, " "), splits)...)
	for _, word := range slices.Clone(list) {
		list = append(list, gluedValues(word)...)
	}
	return slices.DeleteFunc(list, func(word string) bool { return strings.Trim(word, "./") == "" })
}

// gluedValues returns what can be the value of a short option in the same word: t/p of
// -ft/p and of -nft/p. Only the program knows which letters are options, so each of the
// first ones may be the last.
func gluedValues(word string) (values []string) {
	const maxLetters = 8
	if !strings.HasPrefix(word, "-") || strings.HasPrefix(word, "--") {
		return nil
	}
	for i := 1; i < len(word)-1 && i <= maxLetters && isOptionLetter(word[i]); i++ {
		values = append(values, word[i+1:])
	}
	return values
}

func isOptionLetter(c byte) bool { return isLetter(c) || c >= '0' && c <= '9' }

func splits(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`\\!;|&()<>{}[]=:,*?$", r) }

// shellWords splits at unquoted blanks and at operators.
func shellWords(line string) (list []string) {
	var word strings.Builder
	quote := rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case quote == 0 && strings.ContainsRune(" \t\r\n!;|&()<>", r):
			list = append(list, word.String())
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	return append(list, word.String())
}

// lstatAt returns what a path in the workspace leads to, nil if nothing is there.
func (s *scanner) lstatAt(base, name, repo string) (real string, info fs.FileInfo) {
	if real = s.follow(base, name, repo); real == "" {
		return "", nil
	}
	return real, s.lstat(real)
}
