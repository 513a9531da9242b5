package summary

import "strings"

// goRules are for go test, build and vet, panics and the race detector.
var goRules = []rule{
	{
		hints: []string{"--- fail"}, start: re(`^\s*--- FAIL: (\S+)`), weight: found, reach: 40,
		parts: []part{
			{re: re(`^\s+\S+\.go:\d+: `), role: message, max: 2},
			{re: re(`(?i)^\s+(?:got|want|have|expected|actual|error|messages)\b\s*:`), role: detail, max: 3},
			{re: re(`^\s+[-+]\s*\S`), role: detail, max: 3},
		},
		stop: re(`^(?:FAIL|ok|PASS|=== |panic:|exit status|\?)`),
		back: goLog,
	},
	{
		hints: []string{"data race"}, start: re(`^WARNING: DATA RACE`), weight: found, reach: 40,
		parts: []part{
			{re: re(`^(?:Previous )?(?i:write|read) at`), role: message, max: 2},
			{re: re(`^\s+\S+\.go:\d+`), role: place, max: 2, own: true},
		},
		stop: re(`^={10,}`),
	},
	{
		hints: []string{"panic: ", "fatal error: "}, start: re(`^(?:panic|fatal error): `), weight: found, reach: 80,
		parts: []part{
			{re: re(`^\s+(?:panic: |Test\S+ \()|^\[signal `), role: message, max: 2},
			{re: re(`^\t\S+\.go:\d+`), role: place, max: 2, own: true},
		},
		stop: re(`^(?:FAIL\b|ok\s|exit status)`),
	},
	{
		// ginkgo
		hints: []string{"[it] ", "each] ", "suite] "}, start: re(`^(?:\[FAIL\] )?(\S.* \[(?:It|BeforeEach|AfterEach|JustBeforeEach|BeforeSuite|AfterSuite)\] .+)$`), weight: found, reach: 20,
		parts: []part{
			{re: re(`^\s+\[(?:FAILED|PANICKED|TIMEDOUT)\] \S`), role: message},
			{re: re(`^\s+<.*>: \S|^\s+Substr: |^\s+(?:panic|s): `), role: detail, max: 3},
			{re: re(`^/\S+\.go:\d+`), role: place},
		},
		stop: re(`^-{10,}|^Ran \d+`),
	},
	{hints: []string{"fail\t"}, start: re(`^FAIL\t\S+(?:\t[\d.]+s| \[)`), weight: step},
	{
		hints: []string{"go: "}, start: re(`^go: .*(?:error|cannot|invalid|unknown|not found|requires|malformed|missing|no matching|errors|mismatch)`),
		weight: found, reach: 4, parts: []part{{re: re(`^\s+\S`), role: message, max: 2}},
	},
}

// goLog finds the messages of a failed test in the output of -v: between its last ===
// line and the next one.
func goLog(r *ring, name string) (said []piece) {
	inside := false
	for n := r.from(); n < r.last+1; n++ {
		l, _ := r.at(n)
		if strings.HasPrefix(l.text, "=== ") {
			inside = strings.HasSuffix(l.text, " "+name)
			if inside {
				said = nil
			}
		} else if inside && goMessage().MatchString(l.text) {
			said = append(said, piece{l, message})
		}
	}
	return said[max(0, len(said)-3):]
}

var goMessage = re(`^\s+\S+\.go:\d+: `)
