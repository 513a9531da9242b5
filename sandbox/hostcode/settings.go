package hostcode

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxDepth is how deep files of settings may include others, as in git.
const maxDepth = 10

// A setting is one of a file. Its key is "section.name" or
// "section.subsection.name", all in lower case but the subsection.
type setting struct{ section, sub, name, value string }

// settings takes a file of git's settings, and what it names. Where the file says
// which work tree it is for, that counts for what comes after it too.
func (s *scan) settings(file, git string, tree *string, depth int) {
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
			// in a home or in git's own directory
		case (x.section == "include" || x.section == "includeif") && x.name == "path" && x.value != "":
			s.settings(s.follow(path.Dir(real), x.value, git), git, tree, depth+1)
		case x.section == "core" && x.name == "hookspath" && x.value != "":
			s.hooks(s.base(git, *tree), x.value, git)
		}
	}
}

// base is where the programs of a repository are run.
func (s *scan) base(git, tree string) string {
	if tree == "" {
		return git
	}
	return tree
}

// executing lists the settings whose value git, or one of its programs, executes:
// by section and name, "*" for any. Where a value is no command, as of an alias for
// one of git's own, it names nothing that is found.
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

// maxBases bounds the directories of one command line in which its words may name
// files.
const maxBases = 8

// program takes the files of the workspace that a command line names. Which of them
// it executes, only the shell and the programs know: all are taken that a word can
// mean, where the command begins or in a directory that the line names before.
func (s *scan) program(line, git, base string) {
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

// expansion is what a shell puts something else for: $(pwd), `pwd`, $PWD, ${PWD}.
// Of variable it is the name alone, so that what stands beside that is seen.
var (
	expansion = regexp.MustCompile("\\$\\([^()]*\\)|`[^`]*`|\\$\\{[^{}]*\\}|\\$\\w+|\\$[^({]")
	variable  = regexp.MustCompile(`\$\{\w+:?[-+=?]?|\$\w+`)
)

// words returns what of a command line can name a file: its words as a shell has
// them, for names with blanks, and what stands between all that means something to
// one. What follows an expansion is taken for relative: it mostly stands for the
// directory.
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

// shellWords splits at blanks that are not quoted, and at what ends a command.
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

// lstatAt tells of what a path leads to in the workspace, nil where there is nothing.
func (s *scan) lstatAt(base, name, repo string) (real string, info fs.FileInfo) {
	if real = s.follow(base, name, repo); real == "" {
		return "", nil
	}
	return real, s.lstat(real)
}

// parse reads a file of git's settings. What git would refuse is read as far as it
// makes sense: a line that is wrong must not hide those behind it.
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

// A parser stands at a byte of a text.
type parser struct {
	text string
	at   int
}

func (p *parser) end() bool { return p.at >= len(p.text) }

// next returns a byte and goes on, 0 at the end.
func (p *parser) next() byte {
	if p.end() {
		return 0
	}
	p.at++
	return p.text[p.at-1]
}

// line goes on behind the end of the line.
func (p *parser) line() {
	for !p.end() && p.next() != '\n' {
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// word reads the name of a setting.
func (p *parser) word() string {
	from := p.at
	for !p.end() && (isLetter(p.text[p.at]) || p.text[p.at] >= '0' && p.text[p.at] <= '9' || p.text[p.at] == '-') {
		p.at++
	}
	return p.text[from:p.at]
}

// header reads what stands in brackets: [section], [section "sub"] or the old
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

// value reads what follows a name, to the end of its line.
func (p *parser) value() string {
	for !p.end() && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
	if p.end() || p.text[p.at] != '=' {
		return "" // a name alone is true
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

// escape reads what follows a backslash, 0 for a line that goes on.
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
