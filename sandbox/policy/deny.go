package policy

import (
	"regexp"
	"slices"
	"strings"
)

// A denyRule is an entry of Deny, prepared to match other spellings of a command
// too: with options before and between the words, with option letters in any order,
// and with the abbreviations and aliases of the program.
type denyRule struct {
	entry   []string   // its words
	program string     // without a path
	plain   [][]string // its words without options, in each spelling
	options []string
	values  []string // the words after options
}

func denyRules(entries []string) (list []denyRule) {
	for _, entry := range split(entries) {
		b := denyRule{entry: entry, program: base(entry[0])}
		var plain []string
		for i, w := range entry[1:] {
			switch {
			case len(w) > 1 && w[0] == '-':
				b.options = append(b.options, w)
			case len(entry[i]) > 1 && entry[i][0] == '-':
				b.values = append(b.values, w)
			default:
				plain = append(plain, w)
			}
		}
		b.plain = spellings(b.program, plain)
		list = append(list, b)
	}
	return list
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// notDenied refuses commands that an entry of Deny may match. It matches quoted
// words too, and a word whose value is unknown matches any word.
func (r *rules) notDenied(words []word) error {
	if len(r.deny) == 0 {
		return nil
	}
	for _, command := range commandsIn(words) {
		for _, b := range r.deny {
			if b.finds(command) {
				return denied(b.hint(command), "command is denied: %s", strings.Join(b.entry, " "))
			}
		}
	}
	return nil
}

// runners are programs without a grammar that run the command in their arguments.
// It is unknown where that command begins, so each of their words may begin it.
const runners = " sudo doas su runuser run0 pkexec gosu su-exec s6-setuidgid softlimit setlock tini dumb-init eatmydata fd fdfind choom cgexec bwrap proot rsh tmux screen sem gdb ssh-agent start-stop-daemon daemonize linux64 linux32 i386 i486 i586 i686 x86_64 uname26 watch ionice chrt taskset flock npx bunx uvx pnpx pnpm yarn bun uv pipx poetry pipenv hatch mise direnv strace ltrace script unshare nsenter chroot setarch setpriv prlimit " +
	"cpulimit firejail parallel entr xvfb-run dbus-run-session torsocks proxychains proxychains4 faketime fakeroot unbuffer rlwrap numactl perf valgrind systemd-run systemd-inhibit chpst busybox toybox ssh dotenv corepack caffeinate catchsegv "

// commandsIn returns the commands that a command may run: itself, the arguments of a
// runner, and the module in the arguments of python.
func commandsIn(words []word) [][]word {
	list := [][]word{words}
	name := base(words[0].text)
	if strings.Contains(runners, " "+name+" ") || runsCommand(name, words[1:]) {
		for i, w := range words[1:] {
			if w.static || i == 0 || dashes(words[i]) {
				list = append(list, words[i+1:])
			}
		}
	}
	for _, command := range list {
		if module := pythonModule(command); module != nil {
			list = append(list, module)
		}
	}
	return list
}

// runningVerbs are the subcommands, by program, that run the command in their arguments.
var runningVerbs = map[string]string{
	"npm": "exec exe x", "bundle": "exec exe ex e", "bundler": "exec exe ex e", "conda": "run", "mamba": "run", "micromamba": "run", "rustup": "run", "nix": "run shell develop",
	"docker": "exec run", "docker-compose": "exec run", "podman": "exec run", "podman-compose": "exec run", "nerdctl": "exec run", "kubectl": "exec run debug", "oc": "exec run debug rsh",
}

// runsCommand reports whether one of the arguments is such a subcommand, or the first
// one may be.
func runsCommand(program string, args []word) bool {
	verbs := strings.Fields(runningVerbs[program])
	for i, w := range args {
		if slices.Contains(verbs, w.text) || i == 0 && len(verbs) > 0 && !w.static {
			return true
		}
	}
	return false
}

// pythonModule returns the words after -m of python, or nil if there is none.
func pythonModule(words []word) []word {
	if name := base(words[0].text); !strings.HasPrefix(name, "python") && !strings.HasPrefix(name, "pypy") {
		return nil
	}
	for i := 1; i < len(words); i++ {
		switch w := words[i]; {
		case !w.static || !dashes(w) || strings.HasPrefix(w.text, "--"):
			return nil
		case w.text == "-X", w.text == "-W":
			i++
		case strings.ContainsAny(w.text, "cXW"):
		case strings.HasSuffix(w.text, "m"):
			return words[i+1:][: max(0, len(words)-i-1) : len(words)-i-1]
		case strings.Contains(w.text, "m"):
			_, name, _ := strings.Cut(w.text, "m")
			return append([]word{{raw: name, text: name, static: true, glob: -1}}, words[i+1:]...)
		}
	}
	return nil
}

const deniedByOwner = "The owner of this server denies it: [commands] deny."

// hint says which word of a command made it match, if only the shell knows what that
// word will be.
func (b denyRule) hint(words []word) string {
	known := slices.DeleteFunc(slices.Clone(words), func(w word) bool { return !w.static || w.glob >= 0 })
	if len(known) == len(words) || len(known) > 0 && b.finds(known) {
		return deniedByOwner
	}
	i := slices.IndexFunc(words, func(w word) bool { return !w.static || w.glob >= 0 })
	return "Only the shell that runs the command knows what " + shorten(words[i].raw) + " becomes, and it could make the command a denied one. Write its value instead, or put -- before it."
}

func (b denyRule) finds(words []word) bool {
	if len(words) == 0 || !b.starts(words[0]) {
		return false
	}
	if !words[0].static && !words[0].single { // several words
		return true
	}
	if len(words) >= len(b.entry) && mayBegin(words[1:], b.entry[1:]) {
		return true
	}
	given := beforeDashes(words[1:])
	for _, o := range b.options {
		if !b.hasOption(given, o) {
			return false
		}
	}
	for _, v := range b.values {
		if !slices.ContainsFunc(given, func(w word) bool { return mayBe(w, v) || dashes(w) && strings.HasSuffix(w.text, v) }) {
			return false
		}
	}
	return slices.ContainsFunc(b.plain, func(plain []string) bool { return b.follow(words, plain) })
}

// starts reports whether a word may be the name of the program, possibly with a path
// or a version suffix.
func (b denyRule) starts(w word) bool {
	if mayBe(w, b.entry[0]) {
		return true
	}
	name := base(w.text)
	bare := strings.TrimRight(name, digits+".")
	return name == b.program || (bare == "python" || bare == "pip") && bare == strings.TrimRight(b.program, digits+".") &&
		(strings.HasPrefix(name, b.program) || strings.HasPrefix(b.program, name))
}

func mayBegin(words []word, entry []string) bool {
	for i, w := range entry {
		if !mayBe(words[i], w) {
			return false
		}
	}
	return true
}

func mayBe(w word, text string) bool { return !w.static || w.glob >= 0 || w.text == text }

// targets are programs that accept any number of names in any order.
const targets = " make gmake ninja rake gradle gradlew mvn mvnw just task tox nox ant scons "

// knowsSubcommands reports whether the guard of a program finds the subcommand after
// any options, and checks Deny again.
func knowsSubcommands(program string) bool { return program == "git" || program == "go" }

// follow reports whether the words of an entry may follow the program in order. The
// word after an option may be its value. After an option that comes first, any word
// may be a value, since the arity of options is unknown without a grammar.
func (b denyRule) follow(words []word, plain []string) bool {
	known := knowsSubcommands(b.program)
	anywhere := strings.Contains(targets, " "+b.program+" ")
	if anywhere {
		return !slices.ContainsFunc(plain, func(p string) bool {
			return !slices.ContainsFunc(words[1:], func(w word) bool { return mayBe(w, p) })
		})
	}
	loose := !known && len(words) > 1 && dashes(words[1])
	reached := make([]bool, len(plain)+1) // reached[n]: the first n words of the entry have been found, in some reading
	reached[0] = true
	value := false
	for i, w := range words[1:] {
		switch {
		case reached[len(plain)]:
			return true
		case w.static && dashes(w), i == 0 && strings.HasPrefix(w.text, "+"): // +nightly is a toolchain
			value = !known && !strings.Contains(w.text, "=") && w.text != "--"
			continue
		}
		unknown := !w.static || w.glob >= 0
		for j := len(plain) - 1; j >= 0; j-- {
			if reached[j] {
				reached[j+1] = reached[j+1] || unknown || b.means(j, w.text, plain[j])
				reached[j] = unknown || value || loose
			}
		}
		if !w.static && !w.single { // several words
			for j := range plain {
				reached[j+1] = reached[j+1] || reached[j]
			}
		}
		value = unknown
	}
	return reached[len(plain)]
}

// means reports whether the program reads a given word, at position at, as the word
// of an entry.
func (b denyRule) means(at int, given, entry string) bool {
	switch {
	case given == entry:
		return true
	case at > 0:
		return false
	case b.program == "npm":
		return slices.ContainsFunc(npmCommands(given), func(c string) bool { return slices.Contains(npmCommands(entry), c) })
	case b.program == "cargo":
		return cargoCommand(given) == cargoCommand(entry)
	}
	return false
}

func cargoCommand(name string) string {
	if long, ok := map[string]string{"b": "build", "c": "check", "d": "doc", "t": "test", "r": "run", "rm": "remove"}[name]; ok {
		return long
	}
	return name
}

// npmAliases lists the commands of npm with their aliases, then the commands without
// any. See lib/utils/cmd-list.js of npm.
const npmAliases = `owner:author docs:home bugs:issues view:info,show,v search:find,s,se install:add,i,in,ins,inst,insta,instal,isnt,isnta,isntal,isntall uninstall:unlink,remove,rm,r,un rebuild:rb ls:list link:ln init:create,innit
install-test:it install-ci-test:cit,clean-install-test,sit update:u,up,upgrade,udpate config:c test:tst,t dedupe:ddp run:run-script,rum,urn ci:clean-install,ic,install-clean,isntall-clean exec:x explain:why ll:la version:verison
help:hlep dist-tag:dist-tags org:ogr adduser:add-user access approve-scripts audit cache completion deny-scripts deprecate diff doctor edit explore find-dupes fund get help-search install-scripts login logout outdated pack ping pkg prefix
profile prune publish query repo restart root sbom set shrinkwrap stage star stars start stop team token trust undeprecate unpublish unstar whoami`

var npmUpper = regexp.MustCompile(`[A-Z]`)

// npmCommands returns the commands that npm may read a word as. npm accepts any
// unambiguous prefix; which prefixes are unambiguous depends on its version.
func npmCommands(word string) (commands []string) {
	word = npmUpper.ReplaceAllStringFunc(word, func(s string) string { return "-" + strings.ToLower(s) })
	for line := range strings.FieldsSeq(npmAliases) {
		command, aliases, _ := strings.Cut(line, ":")
		for _, name := range append(strings.Split(aliases, ","), command) {
			switch {
			case name == word:
				return []string{command}
			case word != "" && strings.HasPrefix(name, word):
				commands = append(commands, command)
			}
		}
	}
	return commands
}

// spellings returns the spellings of an entry's words. docker has two names for most
// of its commands; for other programs the only spelling is the words themselves.
func spellings(program string, plain []string) [][]string {
	list := [][]string{plain}
	if program != "docker" && program != "podman" && program != "nerdctl" || len(plain) == 0 {
		return list
	}
	const groups = `image: build history import load pull push save tag
container: attach commit cp create diff exec export kill logs pause port rename restart rm run start stats stop top unpause update wait
builder: build
buildx: build
system: info events`
	same := [][]string{{"rmi", "image rm", "image remove"}, {"images", "image ls", "image list"}, {"ps", "container ls", "container list", "container ps"}, {"rm", "container rm", "container remove"}}
	for line := range strings.Lines(groups) {
		group, verbs, _ := strings.Cut(line, ":")
		for verb := range strings.FieldsSeq(verbs) {
			same = append(same, []string{verb, group + " " + verb})
		}
	}
	for _, ways := range same {
		for _, way := range ways {
			words := strings.Fields(way)
			if len(plain) < len(words) || !slices.Equal(plain[:len(words)], words) {
				continue
			}
			for _, other := range ways {
				list = append(list, slices.Concat(strings.Fields(other), plain[len(words):]))
			}
		}
	}
	return list
}

// oneDash are programs whose long options have one dash, so that single letters of
// a word are not options.
const oneDash = " go find terraform tofu java javac openssl ffmpeg packer gcc clang "

// sameOptions are letters and long options that are the same option for most
// programs.
var sameOptions = map[string]string{"f": "force", "v": "verbose", "q": "quiet", "n": "dry-run", "a": "all", "y": "yes", "i": "interactive", "d": "delete"}

// hasOption reports whether an option of an entry may be among the words in any
// form: the letters of -rf in one word or several, or as long options.
func (b denyRule) hasOption(given []word, option string) bool {
	if strings.Contains(oneDash, " "+b.program+" ") {
		name := strings.TrimLeft(option, "-")
		return slices.ContainsFunc(given, func(w word) bool {
			bare, _, _ := strings.Cut(strings.TrimLeft(w.text, "-"), "=")
			return mayDash(w) && (!w.static || w.glob == 0 || bare == name)
		})
	}
	if long, ok := strings.CutPrefix(option, "--"); ok {
		letter := ""
		for l, name := range sameOptions {
			if name == long {
				letter = l
			}
		}
		if long == "recursive" {
			letter = "r"
		}
		return b.hasLetter(given, letter, long)
	}
	for letter := range strings.SplitSeq(option[1:], "") {
		long := sameOptions[letter]
		if letter == "r" || letter == "R" {
			long = "recursive"
		}
		if !b.hasLetter(given, letter, long) {
			return false
		}
	}
	return true
}

func (b denyRule) hasLetter(given []word, letter, long string) bool {
	name, want, _ := strings.Cut(long, "=")
	return slices.ContainsFunc(given, func(w word) bool {
		bare, value, _ := strings.Cut(strings.TrimPrefix(w.text, "--"), "=")
		switch {
		case !mayDash(w):
			return false
		case !w.static, w.glob == 0:
			return true
		case strings.HasPrefix(w.text, "--"):
			return bare != "" && strings.HasPrefix(name, bare) && (want == "" || want == value)
		}
		recursive := b.program == "rm" || b.program == "cp"
		return letter != "" && (strings.Contains(w.text, letter) || recursive && strings.ContainsAny(letter, "rR") && strings.ContainsAny(w.text, "rR"))
	})
}

// mayDash reports whether a word may begin with a dash.
func mayDash(w word) bool {
	if w.static {
		return w.glob == 0 || strings.HasPrefix(w.text, "-")
	}
	return strings.IndexByte("$`\"'-{\\*?[~", w.raw[0]) >= 0
}
