package summary

// shellRules are for messages of Unix programs: a name, a colon, the problem.
var shellRules = []rule{
	{hints: []string{"conflict"}, start: re(`^CONFLICT \(`), weight: found},
	{hints: []string{"rejected]", "[remote rej"}, start: re(`^ ! \[(?:remote )?rejected\]`), weight: found, reach: 6,
		parts: []part{{re: re(`^(?:error|hint): `), role: detail, max: 2}}},
	{
		hints: []string{" line "}, start: re(`^In (\S+ line \d+):$`), weight: found, reach: 6, // shellcheck
		parts: []part{{re: re(`\^-+\^? SC\d+`), role: message, max: 3}},
	},
	{
		// severity: message, possibly after the program's name
		hints: []string{"error", "fatal", "err: ", "critical", "failed"}, inner: true, weight: found, reach: 3,
		start: re(`^\s*(?:[\w./+@-]+(?:\[\d+\])?: )*\[?(?:fatal(?: error)?|error|FATAL|ERROR|Error|Fatal|E|FAILED|CRITICAL|ERR|Failed)\]?(?: \w{0,4}\d{1,5}| \([\w. ]+\))?: *\S`),
		parts: []part{{re: re(`(?i)^\s*(?:hint|caused by|reason|detail|did you mean|=)\b`), role: detail, max: 2}},
		stop:  re(`^\S+: |^$`),
	},
	{
		hints: []string{
			"not found", "no such file", "permission denied", "cannot", "can't", "no space left", "connection refused", "timed out",
			"could not", "failed to connect", "unrecognized option", "invalid option", "syntax error", "is a directory", "not a directory",
			"unable to", "name or service not known", "broken pipe", "operation not permitted", "unbound variable", "address already in use",
			"no rule to make", "unexpected eof", "too many", "out of memory", "couldn't", "unknown option", "not recognized",
		},
		inner: true, weight: found,
		start: re(`^(?:[^\s:]+|/[^:]*)(?:\[\d+\])?: (?:.*: )?.*(?i:not found|no such file|denied|cannot|can't|no space|refused|timed out|could not|couldn't|connect|option|syntax error|directory|unable|not known|broken pipe|not permitted|unbound|already in use|no rule|eof|too many|memory|not recognized)`),
	},
	{
		hints: []string{"segmentation fault", "aborted", "core dumped", "assertion", "terminate called", "what():", "stack smashing", "double free", "killed", "bus error", "floating point exc", "illegal instr", "oom-kill", "out of memory"},
		inner: true, weight: found,
		start: re(`(?:Segmentation fault|Aborted|core dumped|Assertion .* failed|terminate called|what\(\):|stack smashing|double free|\bKilled\b|Bus error|Floating point exception|Illegal instruction|[Oo]om-kill|[Oo]ut of memory)`),
	},
}
