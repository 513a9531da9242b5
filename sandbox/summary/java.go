package summary

// javaRules are for stack traces of Java, .NET and JavaScript, JUnit, Maven and Gradle.
var javaRules = []rule{
	{
		hints: numbered, start: re(`^\d+\) (\w+)\([\w.$]+\)$`), weight: found, reach: 60, holds: true,
		stop: re(`^\d+\) |^FAILURES|^Tests run`),
	},
	{
		hints: []string{" failed"}, start: re(`^(\S+(?: > .+)+) FAILED$`), weight: found, reach: 12, holds: true,
	},
	{
		hints: []string{"what went wrong"}, start: re(`^\* What went wrong:`), weight: found, reach: 6,
		parts: []part{{re: re(`\S`), role: message, max: 3}},
	},
	{hints: []string{"> task "}, start: re(`^> Task \S+ FAILED`), weight: step},
	{
		hints: []string{"[error]"}, start: re(`^\[ERROR\] +(?:[\w.$]+[.:][\w\[\]]+:\d+.*|/\S+:\[\d+,\d+\] .*|[\w.$]+\.\w+ .*(?:FAILURE|ERROR)!)$`), weight: found, reach: 10, holds: true,
	},
	{
		hints: []string{"[error]"}, start: re(`^\[ERROR\] +(?:Failed to execute goal|No plugin|Could not|The build could not)`), weight: found,
	},
	{
		hints: []string{"error", "exception", "failure", "throwable"}, inner: true, weight: found, reach: 80,
		start: re(`^\s*(?:Exception in thread "[^"]*" |Uncaught |Unhandled exception\. |\[?(?:ERROR|SEVERE|FATAL|error)\]?:? +|=> |Caused by: )?` +
			`(?:[\w$]+\.)*(?:[A-Z]\w*)?(?:Error|Exception|Failure|Failed|Throwable)(?: \[\w+\])?(?:: |$| \()`),
		parts: []part{
			{re: re(`^\s*Caused by: `), role: message, max: 2, last: true, anew: true},
			{re: re(`^\s+at .*(?::\d+\)?|line \d+)(?:\s*[{(].*)?$`), role: place, max: 2, own: true},
			{re: re(`^- /\S+`), role: place, max: 2},
			{re: re(`^\S+ !==? \S+`), role: message},
			{re: re(`^\s*(?:[Ee]xpected|[Aa]ctual|[Rr]eceived)\b.*: ?\S|^\s+[-+] \S`), role: detail, max: 2},
		},
		stop: re(`^Node\.js v|^\[?\d{4}-\d\d-|^make`),
	},
}
