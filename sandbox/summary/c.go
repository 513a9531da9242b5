package summary

// cRules are for compiler diagnostics of most languages, linkers, make, cmake, ctest,
// googletest, sanitizers and valgrind.
var cRules = []rule{
	{
		hints: []string{"***fai", "***exc", "***tim", "***not"}, start: re(`Test +#\d+: (\S+) \.*\*\*\*`), weight: found, reach: 8,
		parts: []part{{re: re(`\S`), role: message, max: 2}},
		stop:  re(`^\s+Start +\d+:|^\s*$|^\s*\d+/\d+ Test`),
	},
	{hints: []string{" (failed)", "(segf", "(timeout)", "(not run)"}, start: re(`^\s*\d+ - (\S+) \(`), weight: found},
	{
		hints: []string{"[  failed"}, start: re(`^\[  FAILED  \] (\w+\.\w+)`), weight: found, back: gtestMessages,
	},
	{
		hints: []string{"sanitizer: "}, start: re(`^==\d+==\s*(?:ERROR|WARNING): \w+Sanitizer: `), weight: found, reach: 60,
		parts: []part{
			{re: re(`^\s+#\d+ 0x\w+ in .*:\d+`), role: place, max: 2, own: true},
			{re: re(`^(?:READ|WRITE) of size|is located|^SUMMARY: `), role: detail, max: 2},
		},
		stop: re(`^==\d+==ABORTING`),
	},
	{
		hints: []string{"== inva", "== cond", "== use ", "== proc", "== mism", "bytes in"}, weight: found, reach: 12,
		start: re(`^==\d+== (?:Invalid|Conditional jump|Use of|Process terminating|Mismatched|Syscall param|[\d,]+ (?:\([\d,+ \w]+\) )?bytes in \d+ blocks)`),
		parts: []part{{re: re(`^==\d+==\s+(?:at|by) 0x\w+: .*\(.*:\d+\)`), role: place, max: 2, own: true}},
		stop:  re(`^==\d+==\s*$`),
	},
	{
		hints: []string{"cmake error"}, start: re(`^CMake Error`), weight: found, reach: 8, each: true,
		parts: []part{{re: re(`^\s+\S`), role: message, max: 3}},
		stop:  re(`^\S`),
	},
	{hints: []string{"error ", "stop."}, start: re(`^(?:make|gmake)(?:\[\d+\])?: (?:\*\*\*|Target)`), weight: step},
	{hints: []string{"failed: "}, start: re(`^FAILED: `), weight: step},
	{hints: []string{"returned 1", "ld returned", "linker comm"}, start: re(`(?:collect2|clang|ld): (?:error|fatal).*(?:returned|exit)`), weight: step},
	{
		hints: []string{"undefined reference", "multiple definition", "undefined symbol", "cannot find -l", "duplicate symbol"}, weight: found,
		start: re(`(?:undefined reference to|multiple definition of|undefined symbols?:?|cannot find -l|duplicate symbol)`),
	},
	{
		// file:line:col: severity: message, or file(line,col): severity CODE: message
		hints: []string{"error", "fatal"}, inner: true, weight: found, reach: 5,
		start: re(`^\s*(?:\[\w+\] )?(?:[A-Za-z]:)?[^\s:(][^:(]*(?::\d+(?::\d+)?(?: -|:)|\(\d+(?:,\d+)*\) ?:) *(?:\x60?\w+\x60?: )?(?i:fatal error|internal compiler error|runtime error|syntax error|parse error|error)\b`),
		parts: []part{
			{re: re(`^\s*(?:\d+ +\|.*|\|? *[\^~]+.*)$`), role: detail, max: -1},
			{re: re(`^\s+(?:symbol|location|required|found): |^  [A-Z]`), role: detail, max: 2},
		},
		stop: re(`^\S.*:\d+:\d+:|^\S+\(\d+,\d+\):|^$`),
	},
	{
		// file:line:col: message, without a severity: go build, go vet, flake8, ruff
		hints: []string{".go:", ".py:", ".rb:", ".lua:", ".sh:", ".ts:", ".js:", ".yml:", ".yaml:", ".zig:", ".proto:"},
		inner: true, weight: found, mild: true, start: re(`^(?:vet: )?[^\s:(]+\.\w+:\d+:\d+:?\s(?:[A-Z]+\d+:? |[a-z(\x60"*%]|[A-Z][a-z])`),
	},
}

// gtestMessages finds the messages of a googletest test before its FAILED line.
func gtestMessages(r *ring, name string) (said []piece) {
	for n := r.last; n >= r.from(); n-- {
		l, _ := r.at(n)
		if gtestRun().MatchString(l.text) {
			break
		}
		if gtestPart().MatchString(l.text) {
			said = append([]piece{{l, message}}, said...)
		}
	}
	return said
}

var (
	gtestRun  = re(`^\[ (?:RUN     |      OK|-+)`)
	gtestPart = re(`: Failure$|^\s*(?:Expected|Actual|Which is|Value of)|^  \S`)
)
