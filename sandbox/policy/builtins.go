package policy

import (
	"slices"
	"strings"
)

// builtin checks two builtins of bash that can evaluate a name. With -v, test and
// printf read a[$(…)] as an array element and run the command in it, and %n of
// printf sets any variable. The -v can come from an expansion.
func builtin(words []word) error {
	switch words[0].text {
	case "test", "[":
		if !harmlessTest(words) {
			return denied(`Write it as in [ -f "$x" ] or [ "$x" = y ], with every expansion in quotes.`, "these arguments of %s are not allowed: an expansion in them could run code", words[0].text)
		}
	case "printf":
		if !harmlessPrintf(words[1:]) {
			return denied(`Write it as in printf '%s\n' "$x".`, "these arguments of printf are not allowed: the format must be constant, and -v and %%n set variables")
		}
	}
	return nil
}

// harmlessSet reports whether set only controls when the line ends and what the
// shell prints. Its other options export variables or change the words of the line.
func harmlessSet(words []word) bool {
	if len(words) < 2 || !words[0].plain || words[0].text != "set" {
		return false
	}
	for args := words[1:]; len(args) > 0; args = args[1:] {
		flags := args[0].text
		if !args[0].plain || len(flags) < 2 || flags[0] != '-' && flags[0] != '+' {
			return false
		}
		letters, named := strings.CutSuffix(flags[1:], "o")
		if strings.Trim(letters, "eux") != "" {
			return false
		}
		if named {
			if len(args) < 2 || !args[1].plain || !slices.Contains([]string{"pipefail", "errexit", "nounset", "xtrace"}, args[1].text) {
				return false
			}
			args = args[1:]
		}
	}
	return true
}

func harmlessTest(words []word) bool {
	args := words[1:]
	if n := len(args) - 1; words[0].text == "[" && n >= 0 {
		args = args[:n] // the ]
	}
	if len(args) > 1 && args[0].text == "!" {
		args = args[1:]
	}
	known := true
	for _, w := range args {
		if !w.single || w.text == "-v" || w.text == "-R" {
			return false
		}
		known = known && w.static
	}
	switch {
	case known, len(args) == 1:
		return true
	case len(args) == 2:
		return args[0].static && len(args[0].text) == 2 && args[0].text[0] == '-'
	case len(args) == 3:
		const binary = "= == != -eq -ne -lt -le -gt -ge -nt -ot -ef"
		return args[1].static && slices.Contains(strings.Fields(binary), args[1].text)
	}
	return false
}

func harmlessPrintf(args []word) bool {
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	} else if len(args) > 0 && strings.HasPrefix(args[0].text, "-") {
		return false
	}
	return len(args) == 0 || args[0].static && args[0].single && !convertsN(args[0].text)
}

// convertsN reports whether a format has %n, with any flags.
func convertsN(format string) bool {
	for {
		_, rest, ok := strings.Cut(format, "%")
		if !ok {
			return false
		}
		rest = strings.TrimLeft(rest, "0123456789.*-+ #'hlLjztq")
		if strings.HasPrefix(rest, "n") {
			return true
		}
		format = strings.TrimPrefix(rest, "%")
	}
}
