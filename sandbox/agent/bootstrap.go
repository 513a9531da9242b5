//go:build linux

package agent

import (
	"fmt"
	"strings"
)

// bootstrap is the script that gives a new bash the state of a named shell. Bash reads it
// as the file that BASH_ENV names, so `bash -c` runs the command itself like any other:
// line numbers, $-, $0, error messages and the trace of `set -x` are the command's own.
//
// A state is a script too. It begins with a function, warmbox_last, which is called after
// everything else is restored. It sets the options, so that none of the agent's lines
// runs under `set -eux`, and returns the last command's exit code, so that $? is kept as
// well. The agent's lines call builtins as \builtin, which neither aliases nor functions
// intercept, and quote everything that IFS could split.
//
// A trap on EXIT saves the state, so it is also saved after `exit` or an error under `set
// -e`. A command that sets that trap itself replaces the agent's trap. For a command that
// might, the state is also saved at its end. `trap -p` and `set -v` show the line that
// saves.
type bootstrap struct {
	*named
	fd      int      // the shell's descriptor of the script
	environ []string // variables that the shell starts with
	set     []string // those of them that override the state
	dir     string   // directory that the shell starts in
	move    bool     // dir was requested and overrides the state's
}

// stateEnd is the last line of every complete state.
const stateEnd = "# all of it"

// save returns the command that saves the state to a file, in one line. Each part names
// descriptor 8 itself, since the output of a DEBUG trap between them is discarded.
func save(file string) string {
	put := func(lines string) string { return `\builtin printf "%s\n" ` + lines + ` >&8` }
	parts := []string{
		put(`"warmbox_last() {" "\\builtin unset -f warmbox_last" "\\builtin set -- $?"`),
		put(`"${OLDPWD+OLDPWD=${OLDPWD@Q}}" "\\builtin set -o ${SHELLOPTS//:/ -o }" "\\builtin return \"\$1\"" "}"`),
		// A new bash has options set that this shell may have unset.
		put(`"\\builtin set +o \${SHELLOPTS//:/ +o }" "\\builtin shopt -u \${BASHOPTS//:/ }" "\\builtin shopt -s ${BASHOPTS//:/ }"`),
		// Aliases must not be expanded in a function that is defined again, and a bash
		// that starts with extdebug looks for a debugger.
		put(`"\\builtin shopt -u expand_aliases extdebug"`),
		`\builtin unset -f warmbox_tail`,
		`\builtin unset -v BASH_EXECUTION_STRING warmbox_at`,
		`\builtin umask -p >&8`,
		`\builtin declare -p >&8`,
		// A variable can turn on POSIX mode, in which some functions cannot be defined.
		put(`"\\builtin set +o posix"`),
		`\builtin alias -p >&8`,
		`\builtin trap -p >&8`,
		`\builtin declare -f >&8`,
		`\builtin declare -Fx >&8`, // which functions are exported
		`\builtin declare -Fr >&8`, // which functions are read-only
		// In a function that exits, the parameters are its own: `:` discards them.
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
		// After && a failure triggers neither `set -e` nor a trap on ERR.
		s.WriteString("{ warmbox_last && \\builtin :; } >/dev/null 2>&1\n")
	}
	return s.String()
}

// restore unsets the variables of the environment, since the state has what the last
// command kept of them. It then restores the state and sets what this command overrides.
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

// wrap appends the saving of the state to a command that may set a trap on EXIT. The
// appended text has no quote, so it closes none that the command left open.
func (n *named) wrap(cmd string) string {
	if !n.trap {
		return cmd
	}
	return cmd + "\n\n{ warmbox_tail && \\builtin :; } >/dev/null 2>&1\n"
}

// quote returns text quoted as one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// identifier reports whether name is a valid name of a variable in bash.
func identifier(name string) bool {
	for i, c := range name {
		if !(c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9') {
			return false
		}
	}
	return name != ""
}
