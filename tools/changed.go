package tools

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

const (
	// changesShare is the share of a command's duration that its reply may wait for a
	// scan of the workspace: a hundredth, which is not noticed. The reply to a short
	// command does not wait; the next reply reports the changes.
	changesShare = 100

	// maxChangesWait is how long a reply waits for a scan if there is no duration to
	// take a share of, or no later reply.
	maxChangesWait = time.Second
)

// changesWait is how long the reply to a command waits for a scan of the workspace. follows
// reports whether the caller gets later replies.
func changesWait(exit sandbox.Exit, follows bool) time.Duration {
	switch {
	case exit.Status == sandbox.Running:
		return 0
	case !follows:
		return maxChangesWait
	}
	return exit.Took / changesShare
}

// changedPaths returns the changed paths as inert text.
func changedPaths(n sandbox.Changes) (list []string) {
	for _, name := range n.Paths {
		list = append(list, oneLine(name, 200))
	}
	return list
}

// changedHint reports changes in the reply to a command, "" for other replies. It names other
// commands by their text too: the reader may not know their ids.
func (s *Set) changedHint(owner sandbox.Owner, exec string, n sandbox.Changes) []string {
	var list []string
	for _, id := range n.During {
		if r, err := s.Manager.Record(owner, id); err == nil && id != exec {
			id += " " + strconv.Quote(oneLine(r.Cmd, 40))
		}
		list = append(list, id)
	}
	n.During = list
	return changedHint(n)
}

// changedHint reports changed files that programs of the host may run, outside of the box.
func changedHint(n sandbox.Changes) []string {
	var list []string
	switch names := pathNames(n.Paths, n.More); {
	case names == "":
	case n.More == 0 && len(n.Gone) == len(n.Paths):
		list = append(list, fmt.Sprintf("%s%s appeared or changed in the workspace, and has been deleted again. Programs on the user's machine may have run it in between: tell the user.", during(n), names))
	default:
		s := fmt.Sprintf("%s%s appeared or changed in the workspace. Programs on the user's machine may run such files: "+
			"tell the user, who can read them first.", during(n), names)
		if len(n.Gone) > 0 {
			s += " Deleted again: " + pathNames(n.Gone, 0) + "."
		}
		list = append(list, s)
	}
	if n.Blind {
		list = append(list, fmt.Sprintf("%sthe workspace became too large to be scanned completely for files that git on the user's machine may execute: "+
			"tell the user. Such files that appear now may not be reported.", during(n)))
	}
	return list
}

// during begins a sentence with the commands that ran when files changed. Other programs can
// write to the workspace too, so it does not say that the commands did it.
func during(n sandbox.Changes) string {
	if len(n.During) == 0 {
		return "Since the last scan "
	}
	s := strings.Join(n.During, ", ")
	if n.MoreDuring > 0 {
		s += fmt.Sprintf(" and %d more", n.MoreDuring)
	}
	return fmt.Sprintf("While %s ran, or since the scan before that, ", s)
}

// pathNames renders paths as a list.
func pathNames(names []string, more int) string {
	var list []string
	for _, name := range names {
		list = append(list, sandbox.QuotePath(name))
	}
	if more > 0 {
		list = append(list, fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}

// coverErrors are the errors of programs that try to change a protected path, or to move a file or
// a directory over or out of one.
var coverErrors = []string{"read-only file system", "device or resource busy", "invalid cross-device link"}

// coverHint explains an error in the output of a command that names a protected path, or whose
// command does: sed -i and other programs name their temporary file in it. The output is
// untrusted: the hint repeats none of it but the path.
func coverHint(covered []string, cmd string, outputs ...string) (name, hint string) {
	if len(covered) == 0 {
		return "", ""
	}
	for _, text := range outputs {
		for line := range strings.Lines(text) {
			if name = coveredIn(line, cmd, covered); name != "" {
				return name, fmt.Sprintf("The error in the output may be about %s: commands cannot change or move this path of the workspace. It is protected, "+
					`since programs on the user's machine may run it or files in it. The owner can exclude a path from protection: protect = ["!PATH"] in the configuration.`, sandbox.QuotePath(name))
			}
		}
	}
	return "", ""
}

// coveredIn returns the protected path that the line of an error names, else its command if the
// line names a temporary file, or "".
func coveredIn(line, cmd string, covered []string) string {
	errs := strings.ToLower(line)
	if !slices.ContainsFunc(coverErrors, func(e string) bool { return strings.Contains(errs, e) }) {
		return ""
	}
	if name := namedIn(line, covered); name != "" || !strings.Contains(errs, coverErrors[1]) && !strings.HasPrefix(errs, "sed: ") {
		return name
	}
	return namedIn(cmd, covered)
}

// namedIn returns the protected path that a text names, or "": the longest that occurs as a whole,
// else the last whose base name occurs, since the command may have run in its directory.
func namedIn(text string, covered []string) (found string) {
	whole := false
	for _, name := range covered {
		switch {
		case strings.Contains(text, name):
			if !whole || len(name) > len(found) {
				found, whole = name, true
			}
		case !whole && strings.Contains(text, path.Base(name)):
			found = name
		}
	}
	return found
}
