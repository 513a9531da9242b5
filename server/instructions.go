package server

// instructions tell a model how to work with the tools. Hosts cut them at 2,048
// characters, and some show only the beginning: the vital part comes first. They name no number
// that a setting changes: the schemas do.
const instructions = `warmbox runs shell commands in a warm, isolated Linux container (a "box"). One call is enough: exec {"cmd": "..."} starts your own box if none stands and runs cmd in its shell (bash if it has one). Files, background processes and caches stay in the box; working directory and variables only from call to call with the same shell, e.g. shell: "dev".

What comes back: how the command ended (status: exited, running, timeout, killed, oom, lost; and exitCode: trust only this for success or failure), then its output. A command that fails is an answer, not a tool error; tool errors carry code and hint, which says what to try.

Output: a small one comes whole. Of a longer one you get a summary, whose lines bear the numbers that logs knows them by, and an excerpt; want says what you look for. The rest is in the log: logs {execId} reads by line (fromLine, lines, tail) or searches (grep, context), so do not run a command again to see more. The raw output is also the file logPath on the server's machine.

Time: after waitSeconds exec returns status "running"; the command goes on. Wait on it with logs {execId, until: "end"}, or {execId, fromLine, waitSeconds}, which returns at the end, or when output came and then paused; with grep, on a line that matches, such as a server's "listening". timeoutSeconds kills. Start servers and watchers with background: true. input answers what asks (background, tty), sends signals; stop {execId} ends one command; list shows what runs and what was left over.

Limits: no network unless the owner of the server allowed it; an unprivileged user; a read-only system. Work in /workspace: files there are what the user gets. /tmp and $HOME are writable too, and go with the box. Standard input is empty unless you pass stdin, or use background or tty: then input writes to it.

Use start only when you need another image, variables or a second box; pass its id as containerId. Calls may run at the same time. Stop what you started when you are done.`
