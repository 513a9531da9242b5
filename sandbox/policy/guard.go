package policy

import (
	"slices"
	"strings"
)

// A guard checks the arguments of a program that, through an argument, can run other
// programs, load code or write a file. It gets only static words, except for some values of git.
type guard func(k *checker, words []word) error

func guardOf(program string) guard {
	switch program {
	case "find":
		return (*checker).find
	case "xargs":
		return (*checker).xargs
	case "env":
		return (*checker).env
	case "timeout", "nice", "nohup", "time", "setsid", "stdbuf":
		return (*checker).wrapper
	case "awk", "gawk", "mawk", "nawk":
		return (*checker).awk
	case "sed", "gsed":
		return (*checker).sed
	case "tar", "gtar":
		return (*checker).tar
	case "diff":
		return (*checker).diff
	case "sort":
		return (*checker).sort
	case "uniq":
		return (*checker).uniq
	case "rg":
		return (*checker).rg
	case "git":
		return (*checker).git
	case "make", "gmake":
		return (*checker).make
	case "go":
		return (*checker).golang
	case "cargo":
		return (*checker).cargo
	case "npm":
		return (*checker).npm
	case "python", "python3", "pytest":
		return (*checker).python
	}
	return nil
}

func (k *checker) guarded(check guard, words []word) error {
	name := words[0].text
	for i, w := range words[1:] {
		// An argument of git may have an unknown value, such as a commit message:
		// options.parse makes sure that it is not an option.
		if !w.static && !(name == "git" && w.single && i > 0) {
			return denied("Write the arguments of "+name+" out, in quotes if necessary.", "%s can run other programs or write files, so its arguments must be constant, got %s", name, w.raw)
		}
		if w.glob == 0 || w.glob > 0 && w.text[0] == '-' {
			return denied("Quote the pattern: '"+shorten(w.text)+"', or write ./ before it.", "%s in the arguments of %s may expand to a file name that looks like an option", w.raw, name)
		}
	}
	return check(k, words)
}

// refuse returns the denial of an argument of a guarded program.
func refuse(words []word, w string) error {
	return denied("Remove "+shorten(w)+".", "%s is not allowed for %s: it can run other programs or load code", w, words[0].text)
}

// inner checks the command that a wrapper runs. If it is fed, it gets further unknown
// arguments, so it must not be a guarded program.
func (k *checker) inner(by string, words []word, fed bool) error {
	if len(words) == 0 {
		return denied("Add a command that is allowed.", "%s has no command to run", by)
	}
	if fed && guardOf(words[0].text) != nil {
		return denied("List the names first, and write them out in a separate call.", "%s must not pass unknown arguments to %s, which can run other programs through its arguments", by, words[0].text)
	}
	if by == "xargs" {
		if err := k.notDenied(fedWords(words)); err != nil {
			return err
		}
	}
	if k.calls++; k.calls > maxCalls {
		return denied("Make several calls.", "the command has more than %d simple commands", maxCalls)
	}
	return k.nested(func() error { return k.run(words) })
}

// fedWords returns the words of a command with unknown words for the input of xargs:
// at the end, and for each {}.
func fedWords(words []word) []word {
	unknown := word{raw: "$", glob: -1}
	fed := append(slices.Clone(words), unknown)
	for i, w := range fed[1:] {
		if strings.Contains(w.text, "{}") {
			fed[i+1] = unknown
		}
	}
	return fed
}

// noPattern refuses a pattern before a wrapped command: a file name that it expands
// to could become that command.
func noPattern(words []word, command []word) error {
	for _, w := range words[:len(words)-len(command)] {
		if w.glob >= 0 {
			return denied("Quote it.", "the pattern %s is not allowed before the command that %s runs", w.raw, words[0].text)
		}
	}
	return nil
}

func (k *checker) wrapper(words []word) error {
	name := words[0].text
	args := words[1:]
	_, command, err := wrapperOptions(name).parse(args)
	if err != nil {
		return err
	}
	if name == "timeout" && len(command) > 0 {
		if !isDuration(command[0].text) {
			return denied("Write it as in timeout 10s.", "%s is not a valid time limit", command[0].raw)
		}
		command = command[1:]
	}
	if err := noPattern(words, command); err != nil {
		return err
	}
	return k.inner(name, command, false)
}

func wrapperOptions(name string) options {
	o := options{operandsEnd: true}
	switch name {
	case "timeout":
		o.flags, o.values, o.long = "v", "sk", "foreground preserve-status verbose signal= kill-after="
	case "nice":
		o.values, o.long, o.numbers, o.dashed = "n", "adjustment=", true, "n adjustment" // nice 5 would run 5
	case "time":
		o.flags = "p"
	case "setsid":
		o.flags, o.long = "w", "wait" // not -f, which outlives the call
	case "stdbuf":
		o.values, o.long = "ioe", "input= output= error="
	}
	return o
}

const digits = "0123456789"

func isNumber(s string) bool { return s != "" && strings.Trim(s, digits) == "" }

// isDuration reports whether s is a duration of timeout: a number with an optional unit.
func isDuration(s string) bool {
	unit := strings.TrimLeft(s, digits+".")
	return unit != s && (unit == "" || slices.Contains([]string{"s", "m", "h", "d"}, unit))
}

func (k *checker) env(words []word) error {
	command := words[1:]
	if len(command) > 0 && command[0].text == "--" {
		command = command[1:]
	}
	for len(command) > 0 && strings.Contains(command[0].text, "=") {
		name, value, _ := strings.Cut(command[0].text, "=")
		if err := k.set(setting{name, value, command[0].glob < 0, true}); err != nil {
			return err
		}
		command = command[1:]
	}
	if len(command) > 0 && strings.HasPrefix(command[0].text, "-") {
		return denied("Write env NAME=value COMMAND.", "the option %s of env is not allowed", command[0].raw)
	}
	if err := noPattern(words, command); err != nil {
		return err
	}
	if len(command) == 0 {
		return nil // env alone prints the variables
	}
	return k.inner("env", command, false)
}

func (k *checker) xargs(words []word) error {
	o := options{
		flags: "0rtx", values: "nPILsd", operandsEnd: true,
		long: "null no-run-if-empty verbose exit max-args= max-procs= max-lines= max-chars= delimiter= replace=",
	}
	given, command, err := o.parse(words[1:])
	if err != nil {
		return err
	}
	for _, g := range given {
		// xargs replaces the mark anywhere, in the command's name too. No entry of a
		// list can contain {}.
		if (g.name == "I" || g.name == "replace") && g.value != "{}" {
			return denied("Write xargs -I{} COMMAND {}.", "the mark %q of xargs is not allowed", g.value)
		}
	}
	if err := noPattern(words, command); err != nil {
		return err
	}
	return k.inner("xargs", command, true)
}

const (
	findTests  = "-H -L -P -a -and -o -or -not -depth -d -mount -xdev -noleaf -daystart -follow -nowarn -warn -ignore_readdir_race -noignore_readdir_race -empty -executable -readable -writable -nouser -nogroup -true -false -print -print0 -ls -prune -quit -help --help -version --version -O0 -O1 -O2 -O3"
	findValues = "-name -iname -path -ipath -wholename -iwholename -lname -ilname -regex -iregex -regextype -type -xtype -fstype -maxdepth -mindepth -newer -anewer -cnewer -newermt -newerat -newerct -newermm -samefile -user -group -context -printf"
	findCounts = "-size -mtime -mmin -atime -amin -ctime -cmin -perm -links -inum -uid -gid -used" // -7 is a valid value of these
)

// find checks a line of find. It allows the tests and values of the tables, and
// nothing that deletes or writes: not -delete, -fprint, -fls.
func (k *checker) find(words []word) error {
	for rest := words[1:]; len(rest) > 0; {
		w := rest[0].text
		switch {
		case len(w) < 2 || w[0] != '-', slices.Contains(strings.Fields(findTests), w):
			rest = rest[1:]
		case slices.Contains(strings.Fields(findValues+" "+findCounts), w):
			if len(rest) < 2 {
				return denied("Add a value.", "%s of find needs a value", w)
			}
			count := slices.Contains(strings.Fields(findCounts), w)
			if v := rest[1]; v.glob >= 0 || strings.HasPrefix(v.text, "-") && !(count && isFindCount(v.text[1:])) {
				return denied("Quote a pattern, and write [-] for a dash at its beginning.", "%s is not allowed after %s: it may be an option", v.raw, w)
			}
			rest = rest[2:]
		case slices.Contains(strings.Fields("-exec -execdir -ok -okdir"), w):
			command, ok := findCommand(rest[1:])
			if !ok {
				return denied(`End it with \; or {} +.`, "%s of find has no clear end", w)
			}
			fed := slices.ContainsFunc(command, func(w word) bool { return strings.Contains(w.text, "{}") })
			if i := slices.IndexFunc(command, func(w word) bool { return w.glob >= 0 }); i >= 0 {
				return denied("Quote it.", "the pattern %s is not allowed after %s: it may expand to the ; that ends the command", command[i].raw, w)
			}
			if err := k.findRun(w, command, fed); err != nil {
				return err
			}
			rest = rest[len(command)+2:]
		default:
			return denied("Only tests are allowed, and -exec with allowed commands.", "%s is not allowed for find", w)
		}
	}
	return nil
}

// findRun checks the command of an action such as -exec.
func (k *checker) findRun(action string, command []word, fed bool) error {
	outside := k.directoryUnknown
	defer func() { k.directoryUnknown = outside }()
	k.directoryUnknown = outside || action == "-execdir" || action == "-okdir"
	return k.inner("find "+action, command, fed)
}

// isFindCount reports whether s may follow the dash of a count: a number with a unit,
// or permissions.
func isFindCount(s string) bool {
	return s != "" && strings.Trim(s, digits+"bcwkMGugoarxst+=,") == "" && strings.IndexByte(digits+"ugoa+=", s[0]) >= 0
}

// findCommand returns the words up to a ; or to a + after {}. A + elsewhere ends the
// command for some versions of find and not for others.
func findCommand(words []word) (command []word, ok bool) {
	for i, w := range words {
		switch {
		case w.text == ";":
			return words[:i], true
		case w.text == "+":
			return words[:i], i > 0 && words[i-1].text == "{}"
		}
	}
	return nil, false
}
