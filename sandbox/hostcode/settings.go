package hostcode

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxDepth bounds how deep settings files may include others, as in git.
const maxDepth = 10

// A setting is one setting of a file. Its key is "section.name" or
// "section.subsection.name", in lower case except for the subsection.
type setting struct{ section, sub, name, value string }

// settings scans a file of git's settings and everything that it names. If the file sets
// the work tree, it sets tree for later files too.
func (s *scanner) settings(file, git string, tree *string, depth int) {
	real := s.part(".", file, git)
	if real == "" || depth > maxDepth || s.seen["settings "+real+"\x00"+git] {
		return
	}
	s.seen["settings "+real+"\x00"+git] = true
	list := parse(s.read(real, maxSettings))
	for _, x := range list {
		if x.section == "core" && x.name == "worktree" && x.value != "" {
			if dir := s.follow(git, x.value, git); dir != "" {
				*tree = dir
			}
		}
	}
	for _, x := range list {
		switch {
		case x.executes():
			s.program(x.value, git, s.base(git, *tree))
		case strings.HasPrefix(x.value, "~"), strings.HasPrefix(x.value, "%("):
			// in a home directory or in git's own
		case (x.section == "include" || x.section == "includeif") && x.name == "path" && x.value != "":
			s.settings(s.follow(path.Dir(real), x.value, git), git, tree, depth+1)
		case x.section == "core" && x.name == "hookspath" && x.value != "":
			s.hooks(s.base(git, *tree), x.value, git)
		}
	}
}

// base returns the directory in which git runs the programs of a repository.
func (s *scanner) base(git, tree string) string {
	if tree == "" {
		return git
	}
	return tree
}

// executing lists the settings whose value git, or one of its programs, executes: by
// section and name, "*" for any. A value that is no command line, such as an alias for a
// git command, names no file and so adds no place.
var executing = map[string][]string{
	"alias": {"*"}, "browser": {"cmd", "path"}, "core": {"alternaterefscommand", "askpass", "editor", "fsmonitor", "gitproxy", "pager", "sshcommand"},
	"credential": {"helper"}, "diff": {"command", "external", "textconv"}, "difftool": {"cmd", "path"}, "filter": {"clean", "process", "smudge"},
	"gpg": {"defaultkeycommand", "program"}, "guitool": {"cmd"}, "hook": {"command"}, "imap": {"tunnel"}, "interactive": {"difffilter"},
	"man": {"cmd", "path"}, "merge": {"driver"}, "mergetool": {"cmd", "path"}, "pager": {"*"}, "remote": {"receivepack", "uploadpack"},
	"sendemail": {"cccmd", "headercmd", "sendmailcmd", "smtpserver", "tocmd"}, "sequence": {"editor"}, "submodule": {"update"},
	"tar": {"command"}, "trailer": {"cmd", "command"}, "uploadpack": {"packobjectshook"}, "web": {"browser"}, "instaweb": {"httpd"},
}

func (x setting) executes() bool {
	names := executing[x.section]
	return slices.Contains(names, "*") || slices.Contains(names, x.name)
}

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
// splits them, for names with blanks, and the text between all characters that are
// special to a shell. Text after an expansion counts as relative, since the expansion
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
	return slices.DeleteFunc(list, func(word string) bool { return strings.Trim(word, "./") == "" })
}

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

// parse parses a file of git's settings. Text that git would refuse is parsed as far as
// possible: an invalid line must not hide those after it.
func parse(text string) (list []setting) {
	p := &parser{text: text}
	var section, sub string
	for !p.end() {
		switch c := p.next(); {
		case c == '[':
			section, sub = p.header()
		case c == '#' || c == ';':
			p.line()
		case isLetter(c):
			p.at--
			name := strings.ToLower(p.word())
			list = append(list, setting{section, sub, name, p.value()})
		}
	}
	return list
}

// A parser is a position in a text.
type parser struct {
	text string
	at   int
}

func (p *parser) end() bool { return p.at >= len(p.text) }

// next consumes and returns a byte, 0 at the end.
func (p *parser) next() byte {
	if p.end() {
		return 0
	}
	p.at++
	return p.text[p.at-1]
}

// line skips to the next line.
func (p *parser) line() {
	for !p.end() && p.next() != '\n' {
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// word parses the name of a setting.
func (p *parser) word() string {
	from := p.at
	for !p.end() && (isLetter(p.text[p.at]) || p.text[p.at] >= '0' && p.text[p.at] <= '9' || p.text[p.at] == '-') {
		p.at++
	}
	return p.text[from:p.at]
}

// header parses the text in brackets: [section], [section "sub"] or the old
// [section.sub].
func (p *parser) header() (section, sub string) {
	from := p.at
	for !p.end() && !strings.ContainsRune("]\" \t\n", rune(p.text[p.at])) {
		p.at++
	}
	section = strings.ToLower(p.text[from:p.at])
	section, sub, _ = strings.Cut(section, ".")
	var quoted strings.Builder
	in := false
	for !p.end() {
		switch c := p.next(); {
		case c == '\n':
			return section, sub
		case c == '"':
			if in = !in; !in {
				sub = quoted.String()
			}
		case in && c == '\\':
			quoted.WriteByte(p.next())
		case in:
			quoted.WriteByte(c)
		case c == ']':
			return section, sub
		}
	}
	return section, sub
}

// value parses what follows a name, to the end of its line.
func (p *parser) value() string {
	for !p.end() && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
	if p.end() || p.text[p.at] != '=' {
		return "" // a name alone means true
	}
	for p.at++; !p.end() && (p.text[p.at] == ' ' || p.text[p.at] == '\t'); {
		p.at++
	}
	var b strings.Builder
	in, kept := false, 0
	for !p.end() {
		c := p.next()
		switch {
		case c == '\n':
			return b.String()[:kept]
		case c == '\r' && !p.end() && p.text[p.at] == '\n':
			continue
		case c == '"':
			in = !in
			kept = b.Len()
			continue
		case c == '\\':
			if c = p.escape(); c == 0 {
				continue
			}
			b.WriteByte(c)
			kept = b.Len()
			continue
		case !in && (c == '#' || c == ';'):
			p.line()
			return b.String()[:kept]
		}
		b.WriteByte(c)
		if in || c != ' ' && c != '\t' {
			kept = b.Len()
		}
	}
	return b.String()[:kept]
}

// escape parses what follows a backslash. It returns 0 for a line continuation.
func (p *parser) escape() byte {
	switch c := p.next(); c {
	case '\r':
		if !p.end() && p.text[p.at] == '\n' {
			p.at++
		}
		return 0
	case '\n':
		return 0
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	default:
		return c
	}
}
