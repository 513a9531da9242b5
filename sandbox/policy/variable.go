package policy

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// variables lists the variables that may be set, by the kind of value that they may
// have. A name that ends in * stands for all names with that prefix, and one that
// begins with * for all names with that suffix. Most other variables choose, in some
// program, which code runs: JAVA_HOME, KUBECONFIG, LUA_INIT, RSYNC_RSH.
const variables = `
any: CI NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLORTERM DEBUG VERBOSE QUIET TRACE LOG_LEVEL LOGLEVEL LOG_FORMAT
any: ENVIRONMENT APP_* MY_* FOO BAR BAZ VITE_* REACT_APP_* NEXT_PUBLIC_* NODE_ENV RAILS_ENV RACK_ENV FLASK_ENV
any: PORT HOST BASE_URL API_URL DATABASE_URL REDIS_URL MONGODB_URI USERNAME PASSWORD TOKEN SECRET *_TOKEN *_API_KEY *_SECRET *_PASSWORD *_PORT
any: RUST_LOG GOOS GOARCH GOARM GOARM64 GOAMD64 GO386 GOMIPS GOWASM GOMAXPROCS GOGC GOMEMLIMIT GOTRACEBACK GREP_COLORS GREP_COLOR LS_COLORS JQ_COLORS
any: GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
number: CGO_ENABLED RUST_BACKTRACE RUST_LIB_BACKTRACE RUST_MIN_STACK COLUMNS LINES UV_THREADPOOL_SIZE OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS RAYON_NUM_THREADS NUMEXPR_NUM_THREADS
number: SOURCE_DATE_EPOCH GIT_TERMINAL_PROMPT PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONUTF8 PYTHONFAULTHANDLER PYTHONNOUSERSITE PYTHONTRACEMALLOC PYTHONASYNCIODEBUG
number: NODE_NO_WARNINGS NODE_DISABLE_COLORS NEXT_TELEMETRY_DISABLED DO_NOT_TRACK DOTNET_CLI_TELEMETRY_OPTOUT DOTNET_NOLOGO HUSKY CARGO_INCREMENTAL TF_CPP_MIN_LOG_LEVEL HF_HUB_OFFLINE CUDA_VISIBLE_DEVICES
word: TERM AWS_REGION AWS_DEFAULT_REGION DEBIAN_FRONTEND CARGO_TERM_COLOR CARGO_NET_OFFLINE TOKENIZERS_PARALLELISM
zone: TZ
languages: LANGUAGE
locale: LANG LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_NUMERIC LC_TIME LC_MONETARY
path: TMPDIR TMP TEMP GOCACHE GOTMPDIR
compile: CFLAGS CXXFLAGS CPPFLAGS
encoding: PYTHONIOENCODING
off: GOWORK GOPROXY
local: GOTOOLCHAIN
on: GO111MODULE
cat: PAGER GIT_PAGER MANPAGER
true: EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR`

// scripts are upper-case names that scripts use for their own variables. They may be
// set, but not in the environment of a program.
const scripts = " ARGS ARR BASE BRANCH BUILD CHANGED CMD CODE COMMIT CONTENT COUNT CURRENT DATA DATE DAY DEST DIR DIRS DST END ERR ERROR ERRORS EXIT EXT F FAILED FILE FILENAME FILES FIRST FOUND HASH HEAD ID IDX INDEX INPUT " +
	"ITEM ITEMS KEY LAST LEN LIMIT LINE LIST LOG LOGFILE MATCH MATCHES MAX MESSAGE MIN MODULE MSG NAME NAMES NEW NOW NUM NUMBER OLD OUT OUTFILE OUTPUT PASS PATTERN PKG PKGS QUERY RC REPO RES RESP RESPONSE RESULT RESULTS REV " +
	"SECOND SHA SIZE SRC START STATUS STR SUM TAG TARGET TEXT TIME TITLE TODAY TOTAL TYPE URL USED VAL VALUE VERSION WORD WORDS "

var (
	languages     = regexp.MustCompile(`^[A-Za-z_]+(:[A-Za-z_]+)*$`)
	localeName    = regexp.MustCompile(`^(C|POSIX|(C|[a-z]{2}_[A-Z]{2})\.(UTF-8|utf8|utf-8))$`)
	compileFlags  = regexp.MustCompile(`^(-O[0-3sgz]|-g[0-3]?|-W(all|extra|error|no-[a-z-]+|pedantic)|-pedantic|-std=[a-z0-9+]+|-D[A-Za-z0-9_]+(=[A-Za-z0-9_.]*)?|-fPIC|-pthread|-fsanitize=[a-z,]+|-m(32|64))$`)
	ownName       = regexp.MustCompile(`^([a-z][a-z0-9]*|[A-Z][0-9]*)$`)
	makeReference = regexp.MustCompile(`\$(\([A-Za-z0-9_]+\)|\{[A-Za-z0-9_]+\})`) // a reference to another make variable; it calls no function
	loopName      = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)
)

// A setting is a variable and the value that an assignment, a loop, env or the
// caller of exec gives it.
type setting struct {
	name     string
	value    string
	known    bool // the value is known before it is set
	exported bool // it is in the environment of programs
}

// variable checks a setting. Only a variable that is known to be harmless may be set,
// and only to a harmless value: bash evaluates the values of some of its own
// variables as arithmetic, where RANDOM='a[$(…)]' runs a command, and a locale such
// as zh_CN.GBK changes which of the following bytes are quotes.
func (r *rules) variable(s setting) error {
	if !syntax.ValidName(s.name) {
		return denied("Use letters, digits and _ in names of variables.", "%q is not a valid variable name", s.name)
	}
	if slices.Contains(r.release, s.name) {
		return nil
	}
	kind := kindOf(s.name)
	switch {
	case kind == "" && !s.exported && isScripts(s.name), kind == "" && ownName.MatchString(s.name) && s.name != "histchars":
		kind = "any"
	case kind == "":
		return denied("Leave it out. A variable of your own may have a name of only lower-case letters, since hardly any program reads such a variable. The owner of the server can allow any variable with [commands] release.",
			"the variable %s must not be set: it is not known to be harmless, and could make a command run other code", s.name)
	}
	if kind != "any" && !(s.known && harmlessValue(kind, s.value)) {
		return denied("Leave it out. The owner of the server can allow any value with [commands] release.",
			"the value of the variable %s is not allowed, it must be %s", s.name, kinds[kind])
	}
	return nil
}

// isScripts reports whether a name can only be a script's own variable.
func isScripts(name string) bool {
	return strings.Contains(scripts, " "+name+" ") || loopName.MatchString(name) && name != "_" && name != "auto_resume" && name != "histchars" &&
		!strings.HasPrefix(name, "npm_") && !strings.HasPrefix(name, "warmbox_") && !strings.HasSuffix(name, "_proxy")
}

func kindOf(name string) string {
	if kind, ok := variableKinds[name]; ok {
		return kind
	}
	for known, kind := range variablePatterns {
		start, begins := strings.CutSuffix(known, "*")
		end, ends := strings.CutPrefix(known, "*")
		if begins && strings.HasPrefix(name, start) || ends && strings.HasSuffix(name, end) && !foreign(name) {
			return kind
		}
	}
	return ""
}

// variableKinds and variablePatterns are the table of variables, by name and by pattern.
var variableKinds, variablePatterns = readVariables()

func readVariables() (names, patterns map[string]string) {
	names, patterns = map[string]string{}, map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(variables)) {
		kind, list, _ := strings.Cut(line, ": ")
		for known := range strings.FieldsSeq(list) {
			if strings.Contains(known, "*") {
				patterns[known] = kind
			} else {
				names[known] = kind
			}
		}
	}
	return names, patterns
}

// foreign reports whether a name with a harmless suffix has the prefix of a program.
func foreign(name string) bool {
	return slices.ContainsFunc([]string{"BASH", "LD_", "DYLD_", "GIT_", "npm_", "WARMBOX_", "warmbox_", "CARGO_", "PIP_", "UV_", "XDG_"}, func(p string) bool {
		return len(name) >= len(p) && strings.EqualFold(name[:len(p)], p)
	})
}

// kinds describe each kind of value.
var kinds = map[string]string{
	"number": "a number", "word": "a word of letters, digits, - and _", "zone": "a zone such as Europe/Berlin", "languages": "names such as de:en", "locale": "a locale such as C, POSIX, C.UTF-8 or en_US.UTF-8",
	"path": "a path below /tmp or in the workspace", "compile": "options such as -O, -g, -W, -D or -std", "encoding": "utf-8", "off": "off", "local": "local", "on": "on, off or auto",
	"cat": "cat", "true": "true",
}

func harmlessValue(kind, value string) bool {
	if value == "" {
		return true
	}
	switch kind {
	case "number":
		return isNumber(value)
	case "word":
		return isPlain(value) && !strings.ContainsAny(value, "/.:@%+,=")
	case "zone":
		return isPlain(value) && !strings.ContainsAny(value[:1], ":/") && !upwards(value)
	case "languages":
		return languages.MatchString(value)
	case "locale":
		return localeName.MatchString(value)
	case "path":
		return isPlain(value) && value[0] != '-' && (value == "/tmp" || writable(valueWord(value)))
	case "compile":
		return !slices.ContainsFunc(strings.Fields(value), func(f string) bool { return !compileFlags.MatchString(f) })
	case "encoding":
		return slices.Contains(strings.Fields("utf-8 utf8 UTF-8 ascii latin-1"), value)
	case "on":
		return slices.Contains(strings.Fields("on off auto"), value)
	case "off", "local", "cat", "true":
		return value == kind
	}
	return false
}

// set checks a setting of the checked line and records it for forMake.
func (k *checker) set(s setting) error {
	if err := k.variable(s); err != nil {
		return err
	}
	visible := s.exported || strings.ToUpper(s.name) == s.name || slices.Contains(k.exported, s.name)
	if s.exported && !slices.Contains(k.exported, s.name) {
		k.exported = append(k.exported, s.name)
	}
	value := makeReference.ReplaceAllString(s.value, "")
	plain := s.known && (value == "" || isPlain(value) || kindOf(s.name) == "compile" || kindOf(s.name) == "locale")
	if visible && !plain && !slices.Contains(k.release, s.name) {
		k.text = s.name
	}
	return nil
}

// callsMake reports whether a value contains text that make may evaluate as a
// function call. The variables of a box are set for every command, make included.
func callsMake(value string) bool {
	value = makeReference.ReplaceAllString(value, "")
	return strings.Contains(value, "$(") || strings.Contains(value, "${")
}

// forMake refuses a line that starts make and sets a variable to more than plain
// text: make reads the environment like lines of its makefile.
func (k *checker) forMake() error {
	if k.makes && k.text != "" {
		return denied("Use letters, digits and "+plainMarks+" only, or run make in another call.", "the value of the variable %s is not allowed in a command with make: make would expand it and pass it to a shell", k.text)
	}
	return nil
}
