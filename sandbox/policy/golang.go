package policy

import (
	"slices"
	"strings"
)

// golang checks a line of the go command by the flags of its subcommand, which may
// have one dash or two. -exec, -toolexec, -vettool and similar flags are in no table.
// Words after -args belong to the test, and words after the package of go run to the
// program.
//
// go still runs tests, programs and generators of the workspace, and the C compiler.
func (k *checker) golang(words []word) error {
	rest := words[1:]
	if len(rest) > 0 && strings.TrimLeft(rest[0].text, "-") != rest[0].text {
		dir, after, err := goChdir(rest)
		if err != nil {
			return err
		}
		if err := k.goOutput("C", dir); err != nil {
			return err
		}
		rest = after
	}
	if err := plainTo(words, rest); err != nil {
		return err
	}
	if err := k.notDenied(slices.Concat(words[:1], rest)); err != nil {
		return err
	}
	if len(rest) == 0 {
		return denied("Name a subcommand.", "go without a subcommand is not allowed")
	}
	name, rest := rest[0].text, rest[1:]
	if name == "mod" || name == "tool" || name == "work" {
		if len(rest) == 0 {
			return denied("Name a subcommand of go "+name+".", "go %s without a subcommand is not allowed", name)
		}
		name, rest = name+" "+rest[0].text, rest[1:]
	}
	flags, ok := goFlags(name)
	if !ok {
		return denied("Allowed of go: "+goNames+".", "go %s is not allowed: its options are not known", name)
	}
	if k.directoryUnknown { // most subcommands write to their directory
		if err := k.output("go", valueWord(".")); err != nil {
			return err
		}
	}
	operands, err := k.goParse(name, flags, rest)
	if err != nil {
		return err
	}
	return goOperands(name, operands)
}

// goChdir reads -C, which may come before the subcommand.
func goChdir(words []word) (dir string, rest []word, err error) {
	name, value, glued := strings.Cut(words[0].text, "=")
	rest = words[1:]
	if !glued && len(rest) > 0 {
		value, rest = rest[0].text, rest[1:]
	}
	if name != "-C" && name != "--C" {
		return "", nil, unknownOption(words[0])
	}
	return value, rest, goValue("C", value)
}

// goOutputs are the flags whose value is a path that go writes, or the directory that
// such paths are relative to.
const goOutputs = "o coverprofile cpuprofile memprofile blockprofile mutexprofile trace outputdir C"

// goOutput checks the value of a flag that names an output path.
func (k *checker) goOutput(flag, value string) error {
	if !slices.Contains(strings.Fields(goOutputs), flag) {
		return nil
	}
	return k.output("go", valueWord(value))
}

// goParse checks the flags and returns the operands. It stops at the first operand of
// go run, since the words after it are the program's.
func (k *checker) goParse(name, flags string, words []word) (operands []word, err error) {
	known := strings.Fields(flags)
	for len(words) > 0 {
		w := words[0]
		if !dashes(w) {
			if name == "run" {
				return words, nil
			}
			operands, words = append(operands, w), words[1:]
			continue
		}
		if name == "test" && (w.text == "-args" || w.text == "--args") {
			return operands, nil
		}
		flag, value, glued := strings.Cut(strings.TrimPrefix(w.text[1:], "-"), "=")
		words = words[1:]
		switch {
		case !slices.Contains(known, flag) && !slices.Contains(known, flag+"="):
			return nil, denied("Remove it; flags of the test itself go after -args.", "the option %s of go %s is not known to be harmless", w.raw, name)
		case slices.Contains(known, flag) && !glued:
			continue
		case !glued && len(words) == 0:
			return nil, denied("Add a value.", "the option %s needs a value", w.raw)
		case !glued:
			next := words[0]
			if dashes(next) && !strings.HasSuffix(flag, "flags") || next.glob >= 0 {
				return nil, denied("Write "+w.raw+"=VALUE, in quotes if necessary.", "%s is not allowed after %s: it may be an option", next.raw, w.raw)
			}
			value, words = next.text, words[1:]
		}
		if err := goValue(flag, value); err != nil {
			return nil, err
		}
		if err := k.goOutput(flag, value); err != nil {
			return nil, err
		}
	}
	return operands, nil
}

// goNames are the subcommands that goFlags knows.
const goNames = "build, run, test, vet, install, list, get, fmt, generate, clean, doc, env, version, help, mod (tidy, download, why, graph, vendor, verify, init, edit -json), work (sync, init, use, vendor), tool (cover, dist list, nm, objdump)"

const (
	goBuild = "a n x v asan msan race trimpath work linkshared modcacherw json cover p= C= buildvcs buildmode= gcflags= ldflags= mod= pgo= tags= covermode= coverpkg= "
	goTest  = goBuild + "c artifacts benchmem failfast fullpath short o= bench= benchtime= blockprofile= blockprofilerate= count= coverprofile= cpu= cpuprofile= fuzz= fuzztime= fuzzminimizetime= " +
		"list= memprofile= memprofilerate= mutexprofile= mutexprofilefraction= outputdir= parallel= run= skip= timeout= trace= vet= shuffle= "
	goVet = goBuild + "c= appends asmdecl assign atomic bool bools buildtag buildtags cgocall composites copylocks defers diff directive errorsas framepointer hostport httpresponse ifaceassert " +
		"loopclosure lostcancel methods nilfunc printf rangeloops shift sigchanyzer slog stdmethods stdversion stringintconv structtag testinggoroutine tests timeformat unmarshal unreachable unsafeptr unusedresult waitgroup "
)

// goFlags returns the flags of a subcommand. A flag with = takes a value in the same
// word or the next; the others take one only in the same word.
func goFlags(name string) (flags string, ok bool) {
	switch name {
	case "build":
		return goBuild + "o=", true
	case "install", "run":
		return goBuild, true
	case "test":
		return goTest, true
	case "vet":
		return goVet, true
	case "list":
		return goBuild + "compiled deps e export f= find m retracted test u versions", true
	case "get":
		return goBuild + "d t u tool", true
	case "fmt":
		return "n x C= mod=", true
	case "generate":
		return goBuild + "run= skip=", true
	case "clean":
		return goBuild + "i r cache testcache modcache fuzzcache", true
	case "doc":
		return "all c cmd short src u C=", true
	case "env":
		return "json changed C=", true // not -w and -u: they change settings that choose code
	case "version":
		return "m v json", true
	case "help":
		return "", true
	case "mod edit":
		return "json print", true // the others change what chooses code
	case "mod tidy":
		return "e v x diff compat= go= C=", true
	case "mod download":
		return "json x C=", true
	case "mod why":
		return "m vendor C=", true
	case "mod graph":
		return "x go= C=", true
	case "mod vendor":
		return "e v C=", true
	case "mod verify", "mod init", "work sync", "work init", "work use", "work vendor":
		return "C= r", true
	case "tool cover":
		return "func= html= mode= o= var= h", true
	case "tool dist":
		return "json", true
	case "tool nm":
		return "n size type sort=", true
	case "tool objdump":
		return "s= S gnu", true
	}
	return "", false
}

// goValue checks the values that could name a program, or code outside the workspace.
func goValue(flag, value string) error {
	ok := true
	switch flag {
	case "C":
		ok = inWorkspace(value)
	case "ldflags":
		ok = goLinks(value)
	case "gcflags":
		_, tail, found := strings.Cut(value, "=")
		if !found || strings.HasPrefix(value, "-") {
			tail = value
		}
		ok = !slices.ContainsFunc(strings.Fields(tail), func(f string) bool { return !slices.Contains(strings.Fields("-N -l -m -m=1 -m=2 -m=3 -S -e"), f) })
	case "mod":
		ok = slices.Contains(strings.Fields("mod vendor readonly"), value)
	case "tags":
		ok = isPlain(strings.ReplaceAll(value, " ", ","))
	}
	if !ok {
		return denied("Allowed: a path in the workspace for -C; -s -w and -X NAME=VALUE for -ldflags; -N -l -m -S for -gcflags.", "the value %s of -%s is not known to be harmless", value, flag)
	}
	return nil
}

// goLinks reports whether linker flags only strip or set variables. An external
// linker would be another program.
func goLinks(value string) bool {
	fields := goFields(value)
	for i := 0; i < len(fields); i++ {
		switch f := fields[i]; {
		case f == "-s", f == "-w", f == "-buildid=", f == "-compressdwarf=false", strings.HasPrefix(f, "-X=") && isSetting(f[3:]):
		case f == "-X" && i+1 < len(fields) && isSetting(fields[i+1]):
			i++
		default:
			return false
		}
	}
	return true
}

func isSetting(s string) bool { return s != "" && s[0] != '-' && strings.Contains(s, "=") }

// goFields splits a value as go does: a field may begin with a quote. A field with an
// unclosed quote is returned as it is, so that no check accepts it.
func goFields(s string) (fields []string) {
	for {
		s = strings.TrimLeft(s, " \t\n\r")
		if s == "" {
			return fields
		}
		end := strings.IndexAny(s, " \t\n\r")
		if s[0] == '\'' || s[0] == '"' {
			if end = strings.IndexByte(s[1:], s[0]); end < 0 {
				return append(fields, s)
			}
			fields, s = append(fields, s[1:end+1]), s[end+2:]
			continue
		}
		if end < 0 {
			end = len(s)
		}
		fields, s = append(fields, s[:end]), s[end:]
	}
}

func goOperands(name string, operands []word) error {
	switch name {
	case "help", "get", "list", "mod download", "mod why", "doc":
		return nil
	case "run":
		operands = operands[:min(1, len(operands))]
	case "tool dist":
		if len(operands) != 1 || operands[0].text != "list" {
			return denied("Write go tool dist list.", "this use of go tool dist is not allowed")
		}
	}
	for _, w := range operands {
		if strings.Contains(w.text, "@") {
			return denied("Name packages of the workspace.", "%s is not allowed for go: it would run code from outside the workspace", w.raw)
		}
	}
	return nil
}
