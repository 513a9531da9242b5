package tools

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/spell"
)

// A scene is what a hint is chosen from: what we know of the command and its box, and what the
// command printed as errors. That text is untrusted. It selects a hint, whose facts are ours.
type scene struct {
	cmd    string
	box    *sandbox.Box
	exit   sandbox.Exit
	text   string // the end of what it printed as errors
	errors string // the same in lower case
	room   sandbox.Room
	input  bool // the command can read its standard input
	calls  bool // the caller can call again
	shells bool // such a call can run a command in a named shell of the box
	byHand bool // the reader is at a command line, and calls no tools
	loop   bool // the caller has no tools: Set.Loop
}

// A deadEnd is a failure that many sessions run into, and the way out. Each is told once a
// session.
type deadEnd struct {
	name string
	met  func(*scene) bool
	way  func(*scene) string
}

// notExecutable is the exit code of a shell for a file that it may not execute.
const notExecutable = 126

const noNetwork = "none" // of sandbox.Room.Network

// deadEnds has all of them. A reply tells the first maxDeadEnds that are met, unless they were told.
var deadEnds = []deadEnd{
	{
		"network",
		func(s *scene) bool { return s.room.Network == noNetwork && s.netFailed() },
		func(s *scene) string {
			if s.byHand {
				return "The box has no network: nothing outside it can be reached or downloaded. Allow it with --network bridge."
			}
			return `This container has no network: nothing outside it can be reached or downloaded. Work with what the container has, or tell the user, who can allow it: network = "bridge" (--network bridge).`
		},
	}, {
		"packages",
		func(s *scene) bool {
			return s.isolated() && s.installs()
		},
		func(s *scene) string {
			return "No system packages can be installed in this container: commands are not root, and its root file system is read-only. " +
				"Use what it has, or " + s.otherImage() + "; the owner can build one (warmbox image build --packages)."
		},
	}, {
		"read-only",
		func(s *scene) bool { return s.isolated() && s.readOnly() && !s.installs() },
		func(s *scene) string {
			if s.room.ReadOnly {
				return fmt.Sprintf("The workspace and the root file system of this container are read-only (workspace_mode): write to %s or /tmp.", s.home())
			}
			return fmt.Sprintf("The root file system of this container is read-only: write to %s, %s or /tmp.", s.box.Place.Dir, s.home())
		},
	}, {
		"space",
		func(s *scene) bool { return s.room.Tmp > 0 && s.says("no space left on device", "enospc") },
		func(s *scene) string {
			return fmt.Sprintf("/tmp of this container holds %s, which count as its memory (tmp_size). Delete files there, or write to %s or the workspace, which are on disk. df -h shows what is full, and df -i what has no room for more files.",
				memory(s.room.Tmp), s.home())
		},
	}, {
		"memory",
		func(s *scene) bool {
			return s.box.Place.Memory > 0 && s.exit.MemoryKill == nil && s.says("cannot allocate memory", "memoryerror", "heap out of memory", "std::bad_alloc")
		},
		func(s *scene) string {
			return fmt.Sprintf("This container has %s of memory, without swap, and files in /tmp count. Use less, e.g. fewer parallel jobs, or have the owner raise it (--exec-memory, or memory under [exec]).", memory(s.box.Place.Memory))
		},
	}, {
		"processes",
		func(s *scene) bool {
			return s.room.Pids > 0 && s.says("fork: retry", "fork: resource temporarily unavailable", "can't start new thread", "cannot fork", "pthread_create failed")
		},
		func(s *scene) string {
			return fmt.Sprintf("This container may have %d processes and threads at once. Use fewer parallel jobs, or have the owner raise it (--exec-pids, or pids under [exec]).", s.room.Pids)
		},
	}, {
		"pip",
		func(s *scene) bool {
			return s.says("no module named pip") || slices.Contains([]string{"pip", "pip3"}, s.missing()) && !s.has("pip") && !s.has("pip3")
		},
		func(s *scene) string {
			return "Python has no pip here: use its standard library and what the image has (python3 -c 'help(\"modules\")'), or " + s.otherImage() + "."
		},
	}, {
		"managed",
		func(s *scene) bool { return s.says("externally-managed-environment") },
		func(s *scene) string {
			way := "Packages go into an environment of your own: python3 -m venv .venv && .venv/bin/pip install NAME."
			if s.room.Network == noNetwork {
				way += " This container has no network to download them with."
			}
			return way
		},
	}, {
		"editor",
		func(s *scene) bool {
			return s.says("terminal is dumb", "problem with the editor", "using either -m or -f option", "output is not to a terminal")
		},
		func(s *scene) string {
			terminal := " (tty: true)"
			if s.loop {
				terminal = ""
			}
			return "An editor needs a terminal" + terminal + ". Without one use git commit -m, git merge --no-edit, or GIT_SEQUENCE_EDITOR=true git rebase -i, and change files with sed or a heredoc."
		},
	}, {
		"host path",
		func(s *scene) bool {
			host := s.box.Place.Workspace
			return host != "" && host != s.box.Place.Dir && strings.Contains(s.cmd, host) && s.says("no such file or directory", "not found")
		},
		func(s *scene) string { return workspaceHint(s.box) },
	}, {
		"input",
		func(s *scene) bool { return s.calls && !s.input && s.says("eoferror: eof when reading a line") },
		func(s *scene) string {
			return "The command read its standard input, which is empty: pass stdin, or start it with tty: true and answer with input."
		},
	}, {
		"terminal",
		func(s *scene) bool {
			return s.calls && !s.input && s.says("failed tty get", "not a tty", "error opening terminal", "inappropriate ioctl for device")
		},
		func(s *scene) string { return "The program needs a terminal: start it with tty: true." },
	}, {
		"port",
		func(s *scene) bool { return s.says("address already in use", "eaddrinuse") },
		func(s *scene) string {
			if s.loop {
				return "Another process of this container has the port: use another port, or end that process (ps, kill)."
			}
			return "Another process of this container has the port: list shows what runs, and stop ends it."
		},
	}, {
		"permission",
		func(s *scene) bool { return s.exit.Code == notExecutable && s.says("permission denied") },
		func(s *scene) string {
			return "The file may not be executed: give it that permission (chmod +x FILE), or run its interpreter with the file, such as sh FILE or python3 FILE."
		},
	}, {
		"interpreter",
		func(s *scene) bool {
			_, found := s.interpreter()
			return found || s.says("cannot execute: required file not found", "bad interpreter: no such file")
		},
		func(s *scene) string {
			name, _ := s.interpreter()
			switch {
			case s.says(`\r’: no such file`, `\r': no such file`, "^m: bad interpreter"):
				return `The first line of the script ends with a carriage return (CRLF), which is taken as part of the interpreter's name. Convert the file: sed -i 's/\r$//' FILE.`
			case name != "":
				return fmt.Sprintf("The file exists, but %s, the interpreter that its first line (#!) names, is not in the image.", name)
			}
			return "The file exists, but the program in its first line (#!), or the loader that it was linked for, is missing: head -1 or file shows which."
		},
	}, {
		"state",
		func(s *scene) bool {
			return s.exit.Status == sandbox.Exited && s.exit.Code == 0 && s.text == "" && (s.calls || s.loop) && onlyState(s.cmd)
		},
		func(s *scene) string {
			if s.loop {
				return "Each command has a new shell: the directory and variables that this one set are gone. Write what needs them into the same command: cd DIR && COMMAND."
			}
			if !s.shells {
				return "Each command has a new shell: the directory and variables that this one set are gone. Use workdir and env."
			}
			return `Each command has a new shell: the directory and variables that this one set are gone. Give this and the next command the same shell, e.g. shell: "dev", or use workdir and env.`
		},
	},
}

const (
	// maxDeadEnds is how many of them one reply tells.
	maxDeadEnds = 2

	// errorTail is how much of each stream is searched.
	errorTail = 4 << 10
)

// deadEnds returns hints for the dead ends that a command met, and for a program that it did not
// find. A caller that cannot follow the command has no session, and is told each time.
func (s *Set) deadEnds(owner sandbox.Owner, follows bool, run *sandbox.Run, exit sandbox.Exit, r *ExecResult) (list []string) {
	once := func(what string) bool { return !follows || s.told.once(owner, "hint "+what) }
	if path, hint := coverHint(run.Box.Place.Covered, run.Command.Cmd, r.Stderr, r.Stdout); hint != "" {
		if once("cover " + path) {
			list = append(list, hint)
		}
		return list
	}
	c := newScene(run, exit, r)
	if c == nil {
		return nil
	}
	c.loop, c.calls, c.shells = s.Loop, follows, s.Manager.Commands.Unlimited() && strings.HasSuffix(run.Box.Shell, "/bash")
	return c.ways(once)
}

// ProgramHints returns what to try after a program has ended that was run by hand, of which
// this is the end of its stderr.
func ProgramHints(run *sandbox.Run, exit sandbox.Exit, stderr string) []string {
	var r ExecResult
	r.Stderr = stderr
	if _, hint := coverHint(run.Box.Place.Covered, run.Command.Cmd, r.Stderr, ""); hint != "" {
		return []string{hint}
	}
	hints := memoryHint(exit)
	c := newScene(run, exit, &r)
	if c == nil {
		return hints
	}
	c.byHand = true
	list := c.ways(func(string) bool { return true })
	if len(list) == 0 && c.says("cannot find module", "cannot find package", "modulenotfounderror", "no module named", "err_module_not_found") {
		list = []string{"A module that the program needs is not in the container: install it in the workspace, for the container's own system, or use an image that has it."}
	}
	return append(hints, list...)
}

// ways returns the hints for the dead ends that a command met, and for a program that it did not
// find. once reports whether a hint may be told.
func (c *scene) ways(once func(string) bool) (list []string) {
	met := 0
	for _, d := range deadEnds {
		if met == maxDeadEnds || !d.met(c) {
			continue
		}
		if met++; once(d.name) {
			list = append(list, d.way(c))
		}
	}
	if name := c.missing(); name != "" && met == 0 {
		return c.notFound(name, once)
	}
	return list
}

// newScene returns the scene of a command, nil for one that cannot have met a dead end.
func newScene(run *sandbox.Run, exit sandbox.Exit, r *ExecResult) *scene {
	c := &scene{cmd: run.Command.Cmd, box: run.Box, exit: exit, input: run.Command.Stdin != nil || run.Command.Interactive}
	// For any exit code: a shell goes on after a command that failed, and a pipe hides its code.
	if c.text = tail(r.Stderr); c.merges(run.Command.TTY != nil) {
		c.text = strings.TrimSpace(tail(r.Stdout) + "\n" + c.text)
	}
	if c.text == "" && exit.Code == 0 && (r.Stdout != "" || run.Command.Shell != "" || !onlyState(c.cmd)) {
		return nil
	}
	c.errors = strings.ToLower(c.text)
	if room := run.Box.Place.Room; room != nil {
		c.room = *room
	}
	return c
}

// merges reports whether errors may be in the stdout of the command.
func (s *scene) merges(tty bool) bool {
	failed := s.exit.Status != sandbox.Running && s.exit.Code != 0
	return failed || tty || strings.Contains(s.cmd, "2>&1") || strings.Contains(s.cmd, "|&") || strings.Contains(s.cmd, "&>")
}

// tail returns the end of a text.
func tail(text string) string { return text[max(0, len(text)-errorTail):] }

// isolated reports whether the limits of the box are known.
func (s *scene) isolated() bool { return s.box.Place.Room != nil }

// says reports whether the errors have one of some texts.
func (s *scene) says(texts ...string) bool {
	return s.errors != "" && slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(s.errors, text) })
}

// runs reports whether the text of the command has one of some programs as a word.
func (s *scene) runs(programs ...string) bool {
	words := strings.FieldsFunc(s.cmd, func(r rune) bool { return strings.ContainsRune(" \t\n;&|()`\"'$", r) })
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(programs, w) })
}

// otherImage says how to use another image.
func (s *scene) otherImage() string {
	switch {
	case s.byHand:
		return "choose another image with --image"
	case s.loop:
		return "tell the user, who can choose another image (--image)"
	}
	return "start a container with another image"
}

// has reports whether the box has one of the common programs.
func (s *scene) has(program string) bool { return slices.Contains(s.box.Has, program) }

// home is the home directory of commands.
func (s *scene) home() string { return cmp.Or(s.room.Home, "HOME") }

// netErrors are what programs say that did not reach another machine.
var netErrors = []string{
	"could not resolve", "couldn't resolve", "unable to resolve host", "temporary failure in name resolution", "temporary failure resolving",
	"name or service not known", "nodename nor servname", "name does not resolve", "no such host", "unknown host", "bad address '", "dial tcp: lookup",
	"network is unreachable", "eai_again", " enotfound", "'enotfound'", "enetunreach", "failed to establish a new connection", "err_internet_disconnected",
}

// netFailed reports whether the command could not reach another machine. curl -s and wget -q
// say that by their exit code only.
func (s *scene) netFailed() bool {
	if s.says(netErrors...) || s.exit.Code == 6 && s.runs("curl") || s.exit.Code == 4 && s.runs("wget") {
		return true
	}
	return slices.ContainsFunc(strings.Split(s.errors, "\n"), func(line string) bool {
		return strings.Contains(line, "failed to connect to ") && !slices.ContainsFunc([]string{" localhost", " 127.", " ::1", " 0.0.0.0"}, func(here string) bool { return strings.Contains(line, here) })
	})
}

// installs reports whether the command could not install packages of the system, or become root.
func (s *scene) installs() bool {
	if !s.runs("apt", "apt-get", "dpkg", "apk", "yum", "dnf", "sudo", "su") {
		return false
	}
	return s.exit.Code == 100 || s.says("permission denied", "are you root", "could not open lock", "unable to lock", "read-only file system", "not found", "superuser", "must be root", "authentication failure")
}

// systemDirs are directories that only root could write.
var systemDirs = []string{"/etc/", "/usr/", "/opt/", "/var/", "/root", "/bin/", "/sbin/", "/lib/", "/srv/"}

// readOnly reports whether the command wanted to write to the root file system, or to a
// workspace that is read-only.
func (s *scene) readOnly() bool {
	if s.says("read-only file system") {
		return true
	}
	return s.exit.Code != notExecutable && s.says("permission denied") && slices.ContainsFunc(strings.Split(s.errors, "\n"), func(line string) bool {
		program, said, _ := strings.Cut(line, ":") // which can be a path: /bin/bash
		reads := slices.Contains([]string{"ls", "cat", "find", "grep", "du", "head", "tail", "cp", "rg"}, program)
		return !reads && strings.Contains(line, "permission denied") &&
			slices.ContainsFunc(systemDirs, func(dir string) bool { return strings.Contains(said, dir) })
	})
}

// missing returns the program that a shell or env says it did not find, "" if none does. It is
// a word of the command: a hint repeats no word that the box made up. A command that sets its own
// PATH knows why.
func (s *scene) missing() string {
	if !s.says("not found", "no such file or directory") || strings.Contains(s.cmd, "PATH=") {
		return ""
	}
	for line := range strings.Lines(s.text) {
		if name := missingIn(strings.TrimSpace(line)); name != "" && s.runs(name) {
			return name
		}
	}
	return ""
}

// interpreters are the programs that scripts name most often. A hint repeats no other name
// that the box has made up.
var interpreters = []string{"node", "python", "python3", "bash", "sh", "perl", "ruby", "php", "deno", "bun", "zsh", "tsx", "uv"}

// interpreter returns the program that a script's first line names and that is not there, as
// env or a shell says, "" if it is none of interpreters. The command itself does not name it.
func (s *scene) interpreter() (name string, found bool) {
	if s.exit.Code != 127 && s.exit.Code != notExecutable || s.runs("env", "/usr/bin/env") {
		return "", false
	}
	for line := range strings.Lines(s.text) {
		line = strings.TrimSpace(line)
		if head, ok := strings.CutSuffix(line, ": bad interpreter: No such file or directory"); ok {
			name, found = head[strings.LastIndexAny(head, " /")+1:], true
		} else if strings.HasPrefix(line, "env: ") || strings.HasPrefix(line, "/usr/bin/env: ") {
			head, ok := strings.CutSuffix(line, ": No such file or directory")
			name, found = strings.Trim(head[strings.LastIndex(head, " ")+1:], "'‘’"), ok
		}
		if found {
			break
		}
	}
	if !slices.Contains(interpreters, name) || s.runs(name) {
		name = ""
	}
	return name, found
}

// missingIn returns the program that a line says was not found: "bash: line 1: NAME: command not
// found", "sh: 1: NAME: not found", "env: 'NAME': No such file or directory".
func missingIn(line string) string {
	name, ok := strings.CutSuffix(line, ": command not found")
	if !ok {
		name, ok = strings.CutSuffix(line, ": not found")
		ok = ok && strings.Contains(name, "sh: ")
	}
	if !ok {
		name, ok = strings.CutSuffix(line, ": No such file or directory")
		ok = ok && (strings.HasPrefix(name, "env: ") || strings.HasPrefix(name, "/usr/bin/env: "))
	}
	name = strings.Trim(name[strings.LastIndex(name, " ")+1:], "'\"‘’")
	const most = 40
	if !ok || name == "" || len(name) > most || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-") != "" {
		return ""
	}
	return name
}

// instead are programs that can do what another one does.
var instead = map[string][]string{
	"python": {"python3"}, "pip": {"pip3", "uv"}, "pip3": {"pip", "uv"}, "nodejs": {"node"}, "yarn": {"npm"}, "pnpm": {"npm"}, "npx": {"npm"},
	"rg": {"grep"}, "ag": {"rg", "grep"}, "ack": {"rg", "grep"}, "fd": {"find"}, "fdfind": {"find"}, "wget": {"curl"}, "curl": {"wget", "python3"},
	"vi": {"sed"}, "vim": {"sed"}, "nano": {"sed"}, "emacs": {"sed"}, "cc": {"gcc", "clang"}, "gcc": {"clang"}, "clang": {"gcc"}, "jq": {"python3", "node"},
	"zip": {"python3", "tar"}, "unzip": {"python3"}, "tree": {"find"}, "gmake": {"make"}, "bat": {"cat"},
}

// everywhere are programs that an image with a shell has nearly always, and that boxes are not
// searched for.
var everywhere = []string{"grep", "find", "sed", "tar", "cat"}

// notFound says what to do about a program that the box does not have. What it has instead is
// told for each program, the rest once.
func (s *scene) notFound(name string, once func(string) bool) (list []string) {
	if s.has(name) {
		return nil // a PATH of the command's own lacks it
	}
	if near := s.near(name); near != "" && once("program "+name) {
		list = append(list, fmt.Sprintf("There is no %s; %s is there.", name, near))
	}
	image := s.box.Describe().Image
	switch {
	case image == "":
	case s.byHand:
		list = append(list, fmt.Sprintf("%s is not in the image %s: choose another one, such as --image warmbox/sandbox:full, or install it in the workspace.", name, image))
	case once("programs"):
		other := "start a container with an image that has it"
		if s.loop {
			other = "tell the user, who can choose an image that has it (--image)"
		}
		list = append(list, fmt.Sprintf("%s was not found: use another way, or %s; this one is %s.", name, other, image))
	}
	return list
}

// near returns a program of the box that does what another one does, or that it may be a typing
// error of, or "".
func (s *scene) near(name string) string {
	for _, other := range instead[name] {
		if s.has(other) || slices.Contains(everywhere, other) {
			return other
		}
	}
	if len(name) < 3 {
		return ""
	}
	if i := spell.Closest(name, s.box.Has, 1); i >= 0 && len(s.box.Has[i]) >= 3 {
		return s.box.Has[i]
	}
	return ""
}

// stateful are the commands that change the shell, and nothing else.
var stateful = []string{"cd", "pushd", "export", "source", ".", "alias", "unset", "umask"}

// onlyState reports whether all that a command does is change its shell, which ends with it.
func onlyState(cmd string) bool {
	cmd = strings.TrimSpace(cmd)
	if first, _, ok := strings.Cut(cmd[:min(len(cmd), 10)], " "); !ok || !slices.Contains(stateful, first) || strings.ContainsAny(cmd, "|<>`") {
		return false
	}
	parts := strings.FieldsFunc(cmd, func(r rune) bool { return strings.ContainsRune("&;\n", r) })
	return !slices.ContainsFunc(parts, func(part string) bool {
		words := strings.Fields(part)
		return len(words) == 0 || !slices.Contains(stateful, words[0])
	})
}
