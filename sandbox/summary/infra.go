package summary

// infraRules are for databases, terraform, ansible, docker and kubectl.
var infraRules = []rule{
	{
		hints: []string{"error: "}, start: re(`^(?:psql:\S+:\d+: )?(?:ERROR|FATAL|PANIC): {2}`), weight: found, reach: 5,
		parts: []part{{re: re(`^(?:LINE \d+|DETAIL|HINT|CONTEXT|STATEMENT):`), role: detail, max: 3}},
	},
	{hints: []string{" at line ", "near line"}, start: re(`^(?:ERROR \d+ \(\w+\) at line \d+|(?:Runtime|Parse|Error) ?(?:error)? near line \d+)`), weight: found, reach: 3,
		parts: []part{{re: re(`error here|^\s+\S`), role: detail, max: 2}}},
	{
		hints: []string{"fatal: [", "failed: ["}, start: re(`^(?:fatal|failed): \[[^\]]+\]: `), weight: found, back: ansibleTask, reach: 8,
		parts: []part{{re: re(`^\s*"?(?:msg|stderr|reason)"?: `), role: message, max: 2}},
	},
	{
		hints: []string{"error: "}, start: re(`^Error: \S`), weight: found, reach: 12, inner: true,
		parts: []part{
			{re: re(`^\s*(?:on|with) \S+ line \d+`), role: place},
			{re: re(`^\s+at .*:\d+:\d+\)?`), role: place, own: true},
			{re: re(`^- /\S+`), role: place, max: 2},
			{re: re(`^[A-Z].*[.:]$`), role: detail},
		},
		stop: re(`^╵`),
	},
	{
		hints: []string{"dockerfile:"}, start: re(`^(?:Dockerfile|\S+\.Dockerfile):\d+`), weight: step, reach: 14,
		parts: []part{{re: re(`>>> `), role: place}},
		stop:  re(`^ERROR`),
	},
	{
		hints: []string{"backoff", "oomkilled", "errimage", "configerror", "evicted", "failedsch", "unhealthy"}, weight: found, reach: 8, // kubectl
		start: re(`\b(?:CrashLoopBackOff|ImagePullBackOff|OOMKilled|ErrImagePull|CreateContainerConfigError|Evicted|FailedScheduling|Unhealthy)\b`),
		parts: []part{{re: re(`^\s*(?:Exit Code|Restart Count|Message): +[1-9A-Za-z]`), role: message, max: 2}},
	},
	{hints: []string{`" 500`, `" 501`, `" 502`, `" 503`, `" 504`}, start: re(`" 5\d\d (?:\d+|-)`), weight: logged},           // access logs
	{hints: []string{".1 5", ".0 5", "/2 5", "/3 5"}, start: re(`\bHTTP/[\d.]+ 5\d\d(?:\s|$)`), weight: logged, exact: true}, // answers of servers
	{hints: []string{"error: ", "failed to solve"}, start: re(`^(?:ERROR: (?:failed to (?:solve|build)|process )|ERROR: process|failed to solve)`), weight: step},
}

// ansibleTask finds the heading of the failed task.
func ansibleTask(r *ring, _ string) []piece {
	for n := r.last; n >= r.from(); n-- {
		if l, ok := r.at(n); ok && ansibleHead().MatchString(l.text) {
			return []piece{{l, message}}
		}
	}
	return nil
}

var ansibleHead = re(`^(?:TASK|RUNNING HANDLER) \[`)
