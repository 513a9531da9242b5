package tools

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/warmbox/warmbox/sandbox"
)

const (
	// maxAsked and maxAskedLines bound the text of a question. The user is not asked
	// about a longer command: they must see all of it.
	maxAsked      = 3000
	maxAskedLines = 40

	// askedWidth is where lines are broken, so that no dialog hides their end.
	askedWidth = 100
)

// askMessage is the text of a question: the command, why it is denied, and where it would run.
// The model wrote some of that and may want to deceive, so each line of its text begins with
// a bar, and no line of ours does. It reports false if that text cannot be shown whole.
func askMessage(box sandbox.Description, args ExecArgs, denial error) (string, bool) {
	texts := []string{args.Cmd, args.Workdir, args.Stdin}
	for name, value := range args.Env {
		texts = append(texts, name, value)
	}
	if !showable(texts) {
		return "", false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The model wants to run a command that is not on your list. Each line of the model's text begins with a bar:\n\n%s\n", barred(args.Cmd))
	fmt.Fprintf(&b, "Not allowed: %s\n", oneLine(denial.Error(), 300))
	fmt.Fprintf(&b, "Where: %s\n", placeOf(box))
	section(&b, "In the directory:", args.Workdir)
	var env []string
	for _, name := range slices.Sorted(maps.Keys(args.Env)) {
		env = append(env, name+"="+args.Env[name])
	}
	section(&b, "With these variables:", strings.Join(env, "\n"))
	section(&b, "Its input:", args.Stdin)
	if args.Background || args.TTY {
		b.WriteString("Its input stays open: you are not asked about what the model sends to it later.\n")
	} else if args.Stdin == "" {
		b.WriteString("If you allow it for the session, exactly this command may run again without asking, until this client disconnects.\n")
	}
	return b.String(), strings.Count(b.String(), "\n") <= maxAskedLines
}

// showable reports whether texts are short enough and have only visible characters.
func showable(texts []string) bool {
	size := 0
	for _, text := range texts {
		size += len(text)
		if !utf8.ValidString(text) || strings.ContainsFunc(text, invisible) {
			return false
		}
	}
	return size <= maxAsked
}

// invisible reports whether a user would not see a character.
func invisible(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }

// placeOf describes the box in which a command would run.
func placeOf(box sandbox.Description) string {
	where := "container " + box.ID
	if box.Image != "" {
		where += " of image " + oneLine(box.Image, maxImage)
	} else {
		where += " (" + cmp.Or(box.Backend, "process") + ")"
	}
	if box.Workspace != "" {
		where += ", workspace " + oneLine(box.Workspace, 300)
	}
	return where
}

// section writes a heading and the model's text below it, if there is any.
func section(b *strings.Builder, head, text string) {
	if text != "" {
		fmt.Fprintf(b, "%s\n%s", head, barred(text))
	}
}

// barred puts a bar before each line, a dashed one where a line continues.
func barred(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		bar := "│ "
		for runes := []rune(line); ; bar = "┆ " {
			n := min(len(runes), askedWidth)
			b.WriteString(bar + string(runes[:n]) + "\n")
			if runes = runes[n:]; len(runes) == 0 {
				break
			}
		}
	}
	return b.String()
}
