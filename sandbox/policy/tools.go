package policy

import (
	"regexp"
	"slices"
	"strings"
)

func (k *checker) awk(words []word) error {
	o := options{values: "Fv", long: "field-separator= assign=", operandsEnd: true}
	_, operands, err := o.parse(words[1:])
	if err != nil {
		return err
	}
	if err := noPattern(words, operands); err != nil {
		return err
	}
	if len(operands) == 0 || operands[0].glob >= 0 || !harmlessAwk(operands[0].text) {
		return denied(`Do not use system, getline, @ or |, nor > after print except to "/dev/stderr".`, "this awk program is not allowed: it may run programs or write files")
	}
	for _, w := range operands[1:] {
		if strings.HasPrefix(w.text, "-") && w.text != "-" {
			return refuse(words, w.raw)
		}
	}
	return nil
}

// standardFile matches a redirect to a descriptor that awk already has. It also
// matches what ends the name, since text after it could be a part of the name.
var standardFile = regexp.MustCompile(`>{1,2}[ \t]*"/dev/std(?:out|err)"[ \t]*($|[};\n])`)

// harmlessAwk searches for anything that could start a program or write a file. It
// does not tell code from strings, since the end of a string depends on what each
// awk reads as a regular expression. So it also refuses some harmless programs.
func harmlessAwk(program string) bool {
	program = standardFile.ReplaceAllString(program, "$1")
	for _, bad := range []string{"system", "getline", "@", "\\\n"} {
		if strings.Contains(program, bad) {
			return false
		}
	}
	// || is a logical or; any other | would be a pipe.
	if strings.Contains(strings.ReplaceAll(program, "||", ""), "|") {
		return false
	}
	_, printing, _ := strings.Cut(program, "print")
	return !strings.Contains(strings.ReplaceAll(printing, ">=", ""), ">")
}

func (k *checker) sed(words []word) error {
	o := options{
		flags: "nErsuz", values: "el", glued: "i",
		long: "quiet silent regexp-extended separate unbuffered null-data posix expression= line-length= in-place?",
	}
	given, operands, err := o.parse(words[1:])
	if err != nil {
		return err
	}
	var scripts []string
	inPlace := false
	for _, g := range given {
		if g.name == "i" || g.name == "in-place" {
			inPlace = true
			if !isPlain("x"+g.value) || strings.Contains(g.value, "/") {
				return refuse(words, g.value)
			}
		}
		if g.name == "e" || g.name == "expression" {
			scripts = append(scripts, g.value)
		}
	}
	patterns := slices.ContainsFunc(words, func(w word) bool { return w.glob >= 0 && slices.Contains(scripts, w.text) })
	if scripts == nil && len(operands) > 0 {
		scripts, patterns = []string{operands[0].text}, operands[0].glob >= 0
		operands = operands[1:]
	}
	if inPlace {
		if err := k.outputs("sed", options{outputFrom: 1}, nil, operands); err != nil {
			return err
		}
	}
	if scripts == nil || patterns || slices.ContainsFunc(scripts, func(s string) bool { return !harmlessSed(s) }) {
		return denied("Use only p d q = n N h H g G x D P, s///gpI, y/// and a, i, c with text in the same line, with addresses and without { }.", "this sed script is not allowed: it may run programs or write files")
	}
	return nil
}

func (k *checker) sort(words []word) error {
	o := options{
		flags: "bdfgiMhnRrVcCmsuz", values: "ktSTo",
		long: "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting month-sort human-numeric-sort numeric-sort " +
			"random-sort reverse version-sort check? merge stable unique zero-terminated debug sort= key= field-separator= buffer-size= temporary-directory= parallel= batch-size= output=",
		output: "o output T temporary-directory",
	}
	_, _, err := k.parseArgs("sort", o, words[1:])
	return err
}

// uniq writes its second operand. After an operand such as +1, which is an option for
// old versions, that is the third.
func (k *checker) uniq(words []word) error {
	o := options{
		flags: "cdDiuz", values: "fsw", numbers: true, outputFrom: 2,
		long: "count repeated all-repeated? group? ignore-case unique zero-terminated skip-fields= skip-chars= check-chars= help version",
	}
	_, _, err := k.parseArgs("uniq", o, words[1:])
	return err
}

// diff excludes the options that start pr: -l and --paginate.
func (k *checker) diff(words []word) error {
	o := options{
		flags: "abBcdeEfHiNnpqrsTtuwyZ", values: "CDFILSUWXx", numbers: true,
		long: "normal brief report-identical-files context? unified? ed rcs side-by-side width= left-column suppress-common-lines show-c-function show-function-line= label= expand-tabs initial-tab tabsize= suppress-blank-empty recursive " +
			"no-dereference new-file unidirectional-new-file ignore-file-name-case no-ignore-file-name-case exclude= exclude-from= starting-file= from-file= to-file= ignore-case ignore-tab-expansion ignore-trailing-space ignore-space-change " +
			"ignore-all-space ignore-blank-lines ignore-matching-lines= text strip-trailing-cr ifdef= minimal horizon-lines= speed-large-files color? palette= help version",
	}
	_, _, err := o.parse(words[1:])
	return err
}

func (k *checker) tar(words []word) error {
	o := options{
		flags: "cxtruAdvzjJZapkmhSOPUiow", values: "fCbNX", // letters with the same meaning in every tar
		long: "one-top-level? xattrs no-xattrs acls no-acls selinux no-selinux create extract get list append update concatenate catenate diff compare verbose gzip gunzip ungzip bzip2 xz zstd lzma lzip auto-compress " +
			"no-auto-compress preserve-permissions same-permissions keep-old-files skip-old-files overwrite touch dereference sparse to-stdout " +
			"absolute-names no-same-owner no-same-permissions same-owner numeric-owner one-file-system wildcards no-wildcards anchored no-recursion " +
			"recursion totals null exclude-vcs exclude-caches delay-directory-restore " +
			"file= directory= strip-components= exclude= exclude-from= owner= group= mode= mtime= sort= format=",
	}
	args, old, err := oldTar(o, words[1:])
	if err != nil {
		return err
	}
	given, operands, err := o.parse(args)
	if err != nil {
		return err
	}
	given = append(old, given...)
	for _, g := range given {
		// With a colon it is a file of another machine, reached by a program.
		if (g.name == "f" || g.name == "file") && strings.Contains(g.value, ":") {
			return refuse(words, g.value)
		}
	}
	has := func(names string) bool {
		return slices.ContainsFunc(given, func(g option) bool { return slices.Contains(strings.Fields(names), g.name) })
	}
	extracts := has("x extract get")
	if extracts {
		o.output, o.outputHere = "C directory one-top-level", true
	}
	if has("c r u A create append update concatenate catenate") || !extracts && !has("t d list diff compare") {
		o.output += " f file"
	}
	return k.outputs("tar", o, given, operands)
}

// oldTar reads the first word where it has options without a dash, in order with the
// values that follow it.
func oldTar(o options, args []word) (rest []word, given []option, err error) {
	if len(args) == 0 || strings.HasPrefix(args[0].text, "-") {
		return args, nil, nil
	}
	if args[0].glob >= 0 {
		return nil, nil, denied("Quote it.", "the pattern %s is not allowed as the options of tar", args[0].raw)
	}
	letters, rest := args[0].text, args[1:]
	for _, letter := range strings.Split(letters, "") {
		switch {
		case strings.Contains(o.flags, letter):
			given = append(given, option{letter, ""})
		case strings.Contains(o.values, letter) && len(rest) > 0:
			given = append(given, option{letter, rest[0].text})
			rest = rest[1:]
		default:
			return nil, nil, denied("", "the option %s of tar is not known to be harmless", letter)
		}
	}
	return rest, given, nil
}

// rg has no option here that runs a program: not --pre, --hostname-bin or -z. It
// takes no abbreviations.
func (k *checker) rg(words []word) error {
	o := options{
		flags: "abcFHhiIlLnNopPqsSuUvVwx0.", values: "ABCdEefgjmMrtT",
		long: "regexp= file= after-context= before-context= context= auto-hybrid-regex no-auto-hybrid-regex binary no-binary block-buffered no-block-buffered byte-offset no-byte-offset case-sensitive color= colors= column no-column " +
			"context-separator= no-context-separator count count-matches crlf no-crlf debug dfa-size-limit= encoding= no-encoding engine= field-context-separator= field-match-separator= files files-with-matches files-without-match " +
			"fixed-strings no-fixed-strings follow no-follow generate= glob= glob-case-insensitive no-glob-case-insensitive heading no-heading help hidden no-hidden hyperlink-format= iglob= ignore-case ignore-file= ignore-file-case-insensitive " +
			"no-ignore-file-case-insensitive include-zero no-include-zero invert-match no-invert-match json no-json line-buffered no-line-buffered line-number no-line-number line-regexp max-columns= max-columns-preview no-max-columns-preview " +
			"max-count= max-depth= maxdepth= max-filesize= mmap no-mmap multiline no-multiline multiline-dotall no-multiline-dotall no-config no-filename with-filename no-ignore ignore no-ignore-dot ignore-dot no-ignore-exclude ignore-exclude " +
			"no-ignore-files ignore-files no-ignore-global ignore-global no-ignore-messages ignore-messages no-ignore-parent ignore-parent no-ignore-vcs ignore-vcs no-messages messages no-require-git require-git no-unicode unicode " +
			"null null-data one-file-system no-one-file-system only-matching path-separator= passthru passthrough pcre2 no-pcre2 pcre2-version no-pre pretty quiet regex-size-limit= replace= no-search-zip smart-case " +
			"sort= sortr= sort-files no-sort-files stats no-stats stop-on-nonmatch text no-text threads= trace trim no-trim type= type-not= type-add= type-clear= type-list unrestricted version vimgrep word-regexp",
	}
	_, _, err := o.parse(words[1:])
	return err
}

func beforeDashes(words []word) []word {
	if i := slices.IndexFunc(words, func(w word) bool { return w.text == "--" }); i >= 0 {
		return words[:i]
	}
	return words
}

func (k *checker) make(words []word) error {
	k.makes = true
	o := options{
		flags: "bBdehiknpqrRsStvwm", values: "CfIoW", glued: "jlO",
		long: "always-make debug? environment-overrides ignore-errors jobs? load-average? max-load? keep-going just-print dry-run recon output-sync? quiet silent " +
			"question no-builtin-rules no-builtin-variables no-keep-going stop print-data-base print-directory no-print-directory touch trace version help " +
			"warn-undefined-variables shuffle? file= makefile= directory= include-dir= old-file= assume-old= new-file= what-if= assume-new=",
	}
	given, operands, err := o.parse(words[1:])
	if err != nil {
		return err
	}
	for _, g := range given {
		switch g.name {
		case "C", "directory", "f", "file", "makefile", "I", "include-dir":
			if g.value == "-" || !inWorkspace(g.value) {
				return denied("Name a path in the workspace, without ..", "make must not read from %s", g.value)
			}
		}
	}
	for _, w := range operands {
		if err := k.makeWord(w); err != nil {
			return err
		}
	}
	return nil
}

// makeWord checks a target or a variable. make passes variables to the shell and to
// the programs that it starts.
func (k *checker) makeWord(w word) error {
	if w.glob >= 0 || !isPlain(w.text) {
		return denied("Use letters, digits and "+plainMarks+" only.", "%s is not allowed for make: it would reach a shell", w.raw)
	}
	name, value, isVariable := strings.Cut(w.text, "=")
	if !isVariable {
		return nil
	}
	name = strings.TrimRight(name, ":+") // := and += set one too
	switch name {
	case "SHELL", ".SHELLFLAGS", "MAKE", "MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "MFLAGS":
		return denied("", "the variable %s of make must not be set: it chooses what runs", name)
	case "CC", "CXX", "AR", "LD", "FC":
		if !toolchain.MatchString(value) {
			return denied("Name a usual compiler without a path, such as clang or gcc-12.", "%s=%s is not allowed for make", name, value)
		}
		return nil
	case "PREFIX", "DESTDIR", "TESTS", "TEST", "JOBS", "ARCH", "PLATFORM", "PROFILE", "MODE", "BUILD_TYPE", "BUILD_DIR", "CONFIG", "RUN", "OPTS", "V", "W", "Q", "O":
		return nil // names that makefiles use and no program reads
	}
	name = strings.NewReplacer("-", "_", ".", "_").Replace(name)
	return k.variable(setting{name: name, value: value, known: true})
}

// toolchain matches the names of compilers, linkers and archivers.
var toolchain = regexp.MustCompile(`^([a-z0-9_]+-linux-(gnu|musl)[a-z]*-)?(cc|c\+\+|gcc|g\+\+|clang|clang\+\+|c99|gfortran|flang|ar|gcc-ar|llvm-ar|ld|ld\.lld|ld\.gold|lld)(-[0-9]+)?$`)

// cargo checks the options of cargo, which accepts no abbreviations. Words after -- go to the program or test.
func (k *checker) cargo(words []word) error {
	args := beforeDashes(words[1:])
	for i, w := range args {
		name, value, hasValue := strings.Cut(w.text, "=")
		if !hasValue && i+1 < len(args) {
			value = args[i+1].text
		}
		switch {
		case name == "--config", strings.HasPrefix(name, "-Z"), strings.HasPrefix(name, "-C"):
			return refuse(words, name)
		case name == "--manifest-path" && !inWorkspace(value):
			return denied("Name a path in the workspace, without ..", "cargo must not build %s", value)
		case name == "--target-dir", name == "--artifact-dir", name == "--out-dir":
			if err := k.output("cargo", valueWord(value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// npm checks the options of npm, which accepts abbreviations with any number of dashes.
func (k *checker) npm(words []word) error {
	for _, w := range beforeDashes(words[1:]) {
		name, _, _ := strings.Cut(w.text, "=")
		option := strings.TrimLeft(name, "-")
		if option == name {
			continue
		}
		switch option {
		case "C", "c", "call", "shell", "git", "editor", "viewer", "browser", "python", "node-gyp", "onload-script", "init-module":
			return refuse(words, w.raw)
		}
		for _, bad := range []string{"script-shell", "node-options", "prefix", "userconfig", "globalconfig"} {
			if len(option) > 1 && strings.HasPrefix(bad, strings.ToLower(option)) {
				return refuse(words, w.raw)
			}
		}
	}
	return nil
}

// python checks the options of pytest. It allows any other use of python, since a
// program of Python can run anything.
func (k *checker) python(words []word) error {
	args := words[1:]
	if words[0].text != "pytest" {
		if len(args) < 2 || args[0].text != "-m" || args[1].text != "pytest" {
			return nil
		}
		args = args[2:]
	}
	for i, w := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1].text
		}
		if pytestLoads(w.text, next) {
			return refuse(words, w.raw)
		}
		name, value, hasValue := strings.Cut(w.text, "=")
		if !hasValue {
			value = next
		}
		if name == "--junitxml" || name == "--junit-xml" || name == "--basetemp" || name == "--log-file" {
			if err := k.output("pytest", valueWord(value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// pytestLoads reports whether an argument makes pytest load a plugin, or a
// configuration from outside the workspace. next is the word after it.
func pytestLoads(text, next string) bool {
	name, value, hasValue := strings.Cut(text, "=")
	if !hasValue {
		value = next
	}
	switch name {
	case "--rootdir", "--confcutdir", "--config-file":
		return !inWorkspace(value)
	case "--pdbcls":
		return true
	case "--override-ini":
		return pytestIni(value)
	case "--pythonwarnings":
		return strings.Contains(value, ".")
	}
	switch {
	case strings.HasPrefix(text, "@"):
		return true // a file of arguments
	case !strings.HasPrefix(text, "-") || strings.HasPrefix(text, "--"):
		return false
	}
	return pytestCluster(text, next)
}

// pytestCluster checks a word such as -xp, whose last letter has the rest of the word
// as its value, or else the next word.
func pytestCluster(text, next string) bool {
	const flags, values = "xvqslhV", "pcokmrnW"
	for i := 1; i < len(text); i++ {
		if strings.IndexByte(values, text[i]) < 0 {
			continue
		}
		value := strings.TrimPrefix(text[i+1:], "=")
		if value == "" {
			value = next
		}
		switch text[i] {
		case 'p':
			return !strings.HasPrefix(value, "no:")
		case 'c':
			return !inWorkspace(value)
		case 'o':
			return pytestIni(value)
		case 'W':
			return strings.Contains(value, ".")
		}
		return false
	}
	return false
}

func pytestIni(setting string) bool {
	name, _, _ := strings.Cut(setting, "=")
	return name == "addopts" || name == "pythonpath" || name == "usefixtures"
}
