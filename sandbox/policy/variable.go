package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// choosesCode are variables whose value decides which code some program or the
// shell itself runs. A name that ends in * stands for all that begin so.
const choosesCode = `
	PATH IFS ENV BASH* SHELLOPTS PS4 PROMPT_COMMAND CDPATH GLOBIGNORE EXECIGNORE POSIXLY_CORRECT SHELL HOME
	RANDOM SRANDOM SECONDS OPTIND OPTERR HISTCMD LINENO FUNCNEST
	LD_* DYLD_* GCONV_PATH LOCPATH NLSPATH TERMINFO TERMINFO_DIRS HOSTALIASES RES_OPTIONS GLIBC_TUNABLES
	OPENSSL_CONF OPENSSL_ENGINES XDG_* DOCKER_*
	GOFLAGS GOROOT GOTOOLDIR GOTOOLCHAIN GOENV GOAUTH GOWORK GOCACHEPROG GCCGO CGO_*
	CC CXX AR LD FC PKG_CONFIG GCC_EXEC_PREFIX COMPILER_PATH
	NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE
	PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONINSPECT PYTHONBREAKPOINT PYTHONWARNINGS PYTHONEXECUTABLE PYTHONUSERBASE
	PYTHONPLATLIBDIR PYTHONPYCACHEPREFIX PYTEST_ADDOPTS PYTEST_PLUGINS
	PERL5* PERLLIB RUBY* CLASSPATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS
	CARGO_* RUSTC* RUSTDOC* RUSTFLAGS MAKEFLAGS GNUMAKEFLAGS MFLAGS MAKEFILES GIT_*
	PAGER MANPAGER LESS LESSOPEN LESSCLOSE EDITOR VISUAL BROWSER SSH_ASKPASS SUDO_ASKPASS WARMBOX_* warmbox_*
	TAR_OPTIONS TAR_RSH TAPE GREP_OPTIONS RIPGREP_CONFIG_PATH AWKPATH AWKLIBPATH`

// npmConfig begins the variables that set npm's options; npm minds no case.
const npmConfig = "npm_config_"

// variable judges that a variable gets a value, whoever gives it: an
// assignment, a loop, env, or the caller of exec.
//
// bash takes what is assigned to some variables of its own for arithmetic, in
// which a subscript can hold a command: RANDOM='a[$(…)]' runs it.
func (r *rules) variable(name string) error {
	if !syntax.ValidName(name) {
		return denied("Use letters, digits and _ in names of variables.", "%q is not the name of a variable", name)
	}
	if slices.Contains(r.release, name) || name == "CGO_ENABLED" {
		return nil
	}
	refused := len(name) >= len(npmConfig) && strings.EqualFold(name[:len(npmConfig)], npmConfig)
	for _, known := range r.choosesCode {
		start, many := strings.CutSuffix(known, "*")
		refused = refused || name == known || many && strings.HasPrefix(name, start)
	}
	if refused {
		return denied("Leave it as it is. The owner of this server can release a variable.", "the variable %s may not be set: it chooses what code runs", name)
	}
	return nil
}
