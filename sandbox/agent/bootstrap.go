//go:build linux

package agent

import (
	"fmt"
	"strings"
)

// bootstrap is the script that makes a bash one of the named shells. It comes as
// the file that BASH_ENV names, so the command itself is run by `bash -c` like
// any other: line numbers, $-, $0, error messages and the trace of `set -x` are
// its own.
//
// A state is a script too. It begins with a function, warmbox_last, that is called
// when all else is restored: it sets the options (no line of ours runs under
// `set -eux`) and returns the last command's exit code, so that $? is kept as well.
// Lines of ours call builtins by \builtin, which neither aliases nor functions
// catch, and quote what IFS could split.
//
// The state is saved by a trap on EXIT, and so also after `exit` or an error under
// `set -e`. A command that sets that trap itself replaces ours: for one that could,
// the same is done at its end. `trap -p` and `set -v` show the line that saves.
type bootstrap struct {
	*named
	fd      int      // it is the shell's descriptor of this number
	environ []string // that the shell starts with
	set     []string // of it, what counts more than the state
	dir     string   // that the shell starts in
	move    bool     // it was asked for, rather than the one of the state
}

// stateEnd is the last line of every state that was written whole.
const stateEnd = "# all of it"

// save is the command that saves the state to a file, in one line. What a DEBUG
// trap prints meanwhile goes elsewhere, since each part names the file itself.
func save(file string) string {
	put := func(lines string) string { return `\builtin printf "%s\n" ` + lines + ` >&8` }
	parts := []string{
		put(`"warmbox_last() {" "\\builtin unset -f warmbox_last" "\\builtin set -- $?"`),
		put(`"${OLDPWD+OLDPWD=${OLDPWD@Q}}" "\\builtin set -o ${SHELLOPTS//:/ -o }" "\\builtin return \"\$1\"" "}"`),
		// A new bash has options set that this one may have unset.
		put(`"\\builtin set +o \${SHELLOPTS//:/ +o }" "\\builtin shopt -u \${BASHOPTS//:/ }" "\\builtin shopt -s ${BASHOPTS//:/ }"`),
		// No alias shall be expanded in a function that is defined again, and a bash
		// that starts with extdebug looks for a debugger.
		put(`"\\builtin shopt -u expand_aliases extdebug"`),
		`\builtin unset -f warmbox_tail`,
		`\builtin unset -v BASH_EXECUTION_STRING warmbox_at`,
		`\builtin umask -p >&8`,
		`\builtin declare -p >&8`,
		// A variable can turn POSIX mode on, in which not all functions can be defined.
		put(`"\\builtin set +o posix"`),
		`\builtin alias -p >&8`,
		`\builtin trap -p >&8`,
		`\builtin declare -f >&8`,
		`\builtin declare -Fx >&8`, // which of them are exported
		`\builtin declare -Fr >&8`, // which of them are fixed
		// In a function that exits, the parameters are its own: then it is `:` that takes them.
		`\builtin printf "%s" "\\builtin ${FUNCNAME+: }set --" >&8 && \builtin printf " %s" "${@@Q}" >&8 && \builtin printf "\n" >&8`,
		`for ((warmbox_at = ${#DIRSTACK[@]}; --warmbox_at > 0;)); do ` + put(`"\\builtin pushd -n -- ${DIRSTACK[warmbox_at]@Q}"`) + `; done`,
		`{ [[ :$BASHOPTS: != *:expand_aliases:* ]] || ` + put(`"\\builtin shopt -s expand_aliases"`) + `; }`,
		put(`"` + stateEnd + `"`),
	}
	return `{ ` + strings.Join(parts, ` && `) + `; } 8>|` + file + ` >/dev/null 2>&1 || \builtin :`
}

// String returns the script.
func (b bootstrap) String() string {
	save := save(b.next)
	var s strings.Builder
	fmt.Fprintf(&s, "\\exec %d<&-\n{ \\builtin unset -v BASH_ENV\n", b.fd)
	if !b.fresh {
		b.restore(&s)
	}
	fmt.Fprintf(&s, "\\builtin trap -- %s EXIT\n} 9>&2 >/dev/null 2>&1\n", quote(save))
	if b.trap {
		fmt.Fprintf(&s, "warmbox_tail() { \\builtin set -- \"$?\"; \\builtin unset -f warmbox_tail; %s; \\builtin return \"$1\"; }\n", save)
	}
	if !b.fresh {
		// After && a failure counts neither for `set -e` nor for a trap on ERR.
		s.WriteString("{ warmbox_last && \\builtin :; } >/dev/null 2>&1\n")
	}
	return s.String()
}

// restore takes away what the environment brings, since the state has what the
// last command kept of it, and puts in what counts for this one.
func (b bootstrap) restore(s *strings.Builder) {
	for _, v := range b.environ {
		if name, _, _ := strings.Cut(v, "="); identifier(name) {
			s.WriteString("\\builtin unset -v " + name + "\n")
		}
	}
	fmt.Fprintf(s, "\\builtin . %s\n", b.state)
	for _, v := range b.set {
		if name, value, _ := strings.Cut(v, "="); identifier(name) {
			fmt.Fprintf(s, "\\builtin export %s=%s\n", name, quote(value))
		}
	}
	dir := quote(b.dir)
	if b.move {
		fmt.Fprintf(s, "\\builtin cd -- %s\n", dir)
		return
	}
	fmt.Fprintf(s, "\\builtin cd -- \"${PWD-}\" || { \\builtin printf 'bash: %%s: the directory of this shell is gone, and this is %%s\\n' \"${PWD-}\" %s >&9\n\\builtin cd -- %s; }\n", dir, dir)
}

// wrap adds to a command that may set a trap on EXIT what saves the state at its
// end. There is no quote in it, so that it closes none that the command left open.
func (n *named) wrap(cmd string) string {
	if !n.trap {
		return cmd
	}
	return cmd + "\n\n{ warmbox_tail && \\builtin :; } >/dev/null 2>&1\n"
}

// quote makes one word of any text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// identifier reports whether bash can have a variable of this name.
func identifier(name string) bool {
	for i, c := range name {
		if !(c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9') {
			return false
		}
	}
	return name != ""
}
