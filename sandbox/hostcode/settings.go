package hostcode

import (
	"path"
	"slices"
	"strings"
)

// maxDepth bounds how deep settings files may include others, as in git.
const maxDepth = 10

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
