package server

// instructions tell a model how to work with the tools. Hosts cut them at 2,048
// characters, and some show only the beginning: the vital part comes first.
const instructions = `warmbox runs shell commands in a warm, isolated Linux container (a "box"). One call is enough: exec {"cmd": "..."} starts your own box if none stands and runs cmd in it with bash. Files, background processes and caches stay in the box from call to call; the working directory and variables set by a command do not.

What comes back: status (exited, running, timeout, killed, oom, lost), exitCode (trust only this for success or failure), a summary, stdout and stderr. A command that fails is an answer, not a tool error; tool errors carry code and hint, which says what to try.

Output: up to 8,000 bytes come whole, of more you get the head and the tail with true counts of what is left out. Nothing is lost: logs {execId} reads all of it by line (fromLine, lines, tail) or searches it (grep, context), so do not run a command again to see more. The raw output is also in the file logPath on the server's machine.

Time: exec waits 45 s (waitSeconds), then returns status "running" with what was printed so far; the command goes on. Wait on it with logs {execId, fromLine: next, waitSeconds}, which returns on new output or the end; with grep, on a line that matches, such as a server's "listening". timeoutSeconds is what kills (default 600). Start servers and watchers with &: leftover lists what still runs, and logs has what it prints. list shows your boxes and commands.

Limits: no network unless the owner of the server allowed it; an unprivileged user; a read-only system. Work in /workspace: files there are what the user gets. /tmp and $HOME are writable too, and go with the box. Standard input is empty unless you pass stdin.

Use start only when you need another image, variables or a second box; pass its id as containerId. Calls may run at the same time. Stop what you started when you are done.`
