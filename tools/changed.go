package tools

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

const (
	// newsShare is the part of the time that a command took for which its reply
	// waits for a look at the workspace: a hundredth, which is not noticed. A short
	// command's reply waits for none, and the next one tells.
	newsShare = 100

	// newsWait is what a call waits for one where no command is waited for.
	newsWait = time.Second
)

// newsPatience is how long the reply to a command waits for what it did to the
// workspace. Who asks for no other reply waits until that is known.
func newsPatience(exit sandbox.Exit, follows bool) time.Duration {
	switch {
	case exit.Status == sandbox.Running:
		return 0
	case !follows:
		return newsWait
	}
	return exit.Took / newsShare
}

// changedPaths names what changed as text that is safe to show.
func changedPaths(n sandbox.Changes) (list []string) {
	for _, name := range n.Paths {
		list = append(list, oneLine(name, 200))
	}
	return list
}

// changedHint tells of files that run outside of the box, where nothing confines
// them.
func changedHint(n sandbox.Changes) []string {
	var list []string
	switch names := pathNames(n.Paths, n.More); {
	case names == "":
	case n.More == 0 && len(n.Gone) == len(n.Paths):
		list = append(list, fmt.Sprintf("%s%s appeared or changed in the workspace, and is gone again. Programs of the user's machine may have run it meanwhile: say so.", during(n), names))
	default:
		s := fmt.Sprintf("%s%s appeared or changed in the workspace. Programs of the user's machine may run such files: "+
			"say so, that the user can read them first.", during(n), names)
		if len(n.Gone) > 0 {
			s += " Gone again: " + pathNames(n.Gone, 0) + "."
		}
		list = append(list, s)
	}
	if n.Blind {
		list = append(list, fmt.Sprintf("%sthe workspace became larger than what is looked at for what git on the user's machine may execute: "+
			"say so. What appears there now may be told of nowhere.", during(n)))
	}
	return list
}

// during begins a sentence with the commands that ran when something happened.
// Others can write to a workspace too, so that it says no more.
func during(n sandbox.Changes) string {
	if len(n.During) == 0 {
		return "Since the last look "
	}
	s := strings.Join(n.During, ", ")
	if n.MoreDuring > 0 {
		s += fmt.Sprintf(" and %d more", n.MoreDuring)
	}
	return fmt.Sprintf("While %s ran, or since the look before, ", s)
}

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

// coverErrors are what programs say where they cannot change a path that is covered,
// or move one that a covered path is in.
var coverErrors = []string{"read-only file system", "device or resource busy"}

// coverHint tells why something in a command may have failed: a line of its output
// says so of a path that is covered. Output is a stranger's, so that it is only looked at.
func coverHint(covered []string, outputs ...string) string {
	if len(covered) == 0 {
		return ""
	}
	for _, text := range outputs {
		for line := range strings.Lines(text) {
			if name := coveredIn(line, covered); name != "" {
				return fmt.Sprintf("Commands cannot change or move %s in the workspace, if that is what the output means: it is protected, "+
					`since programs of the user's machine run it, or what is in it. The owner can leave a path out of that: protect takes it with a "!" before it.`, sandbox.QuotePath(name))
			}
		}
	}
	return ""
}

// coveredIn returns the covered path that a line of an error names, "" where it is
// none: the longest that stands there as a whole, or else the last of those whose
// own name does, since a command may have been in the directory.
func coveredIn(line string, covered []string) (found string) {
	errs := strings.ToLower(line)
	if !strings.Contains(errs, coverErrors[0]) && !strings.Contains(errs, coverErrors[1]) {
		return ""
	}
	whole := false
	for _, name := range covered {
		switch {
		case strings.Contains(line, name):
			if !whole || len(name) > len(found) {
				found, whole = name, true
			}
		case !whole && strings.Contains(line, path.Base(name)):
			found = name
		}
	}
	return found
}
