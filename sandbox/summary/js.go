package summary

// jsRules are for jest, vitest, mocha, TAP, eslint, bundlers and node.
var jsRules = []rule{
	{
		hints: []string{"● "}, start: re(`^\s*● (.+)$`), weight: found, reach: 60,
		parts: []part{
			{re: re(`^\s+(?:Expected|Received)\b.*: `), role: detail, max: 4},
			{re: re(`^\s+[-+] {2,}\S`), role: detail, max: 4},
			{re: re(`^\s+at .*:\d+:\d+\)?$`), role: place, own: true},
			{re: re(`^\s+at |^\s+>? *\d* \||expect\(|^\s+[-+] (?:Expected|Received)`), role: detail, max: -1},
			{re: re(`^\s+\S`), role: message},
		},
		stop: re(`^(?:\s+● |PASS|FAIL|Test Suites:)`),
	},
	{
		hints: []string{"fail "}, start: re(`^\s*(?:FAIL|❯|×) +(\S+\.[cm]?[jt]sx? > .*)$`), weight: found, reach: 30,
		parts: []part{
			{re: re(`^\w*(?:Error|Exception): `), role: message},
			{re: re(`^\s*❯ .*:\d+:\d+`), role: place, own: true},
			{re: re(`^\s*[-+] (?:Expected|Received)`), role: detail, max: -1},
			{re: re(`^\s*[-+] +\S`), role: detail, max: 4},
		},
		stop: re(`^⎯{3,}\[|^\s*FAIL `),
	},
	{hints: []string{"fail "}, start: re(`^FAIL +\S+\.[cm]?[jt]sx?\b`), weight: step},
	{hints: []string{"✕ ", "✖ ", "✗ "}, start: re(`^\s+[✕✗✖] (.+?)(?: \([\d.]+ ?m?s\))?$`), weight: found, reach: 12,
		parts: []part{{re: re(`^\s+(?:\S*Error|Expected|expected|actual|message)\b`), role: message, max: 2}}},
	{
		hints: []string{"not ok "}, start: re(`^\s*not ok \d+(?: - )?(.*)$`), weight: found, reach: 30,
		parts: []part{
			{re: re(`^\s+(?:error|message): *[^\s|]`), role: message},
			{re: re(`^\s+(?:expected|actual|wanted|found|operator): `), role: detail, max: 3},
			{re: re(`^\s+(?:location|at|stack): *[^\s|]`), role: place},
			{re: re(`^#\s+(?:Failed test|at |got|expected)`), role: detail, max: 4},
			{re: re(`^\s+(?:\w+: |---|at |\S+ \(.*:\d+:\d+\))`), role: detail, max: -1},
			{re: re(`^\s{4,}\S`), role: message, max: 2},
		},
		stop: re(`^\s*(?:\.\.\.|ok \d|not ok|1\.\.\d)`),
	},
	{
		hints: []string{"  error "}, start: re(`^\s+\d+:\d+\s+error\s+\S`), weight: found, back: eslintFile,
	},
	{
		hints: []string{"error in ", "error during build", "[error]", "build failed"}, weight: found, reach: 12,
		start: re(`^(?:ERROR in .*|error during build:|[✘X✖] \[ERROR\] .*)$`),
		parts: []part{
			{re: re(`^(?:\S*Error|Module not found|TS\d+|\[[\w-]+\]).*`), role: message, max: 2},
			{re: re(`^\s+\S+:\d+:\d+:?$|^\s+file: \S+|^\s+at .*:\d+:\d+`), role: place, own: true},
		},
		stop: re(`^(?:webpack|ERROR in|✘)`),
	},
	{hints: []string{"npm err", "npm error"}, start: re(`^npm (?:ERR!|error) (?:code|\d{3}|notarget|ERESOLVE|enoent|syscall|Missing|missing|Could not|peer|Found|Tracker|command failed|Lifecycle).*\S`), weight: found},
	{
		hints: []string{".js:", ".ts:", ".cjs:", ".mjs:", "node:"}, start: re(`^(?:file://)?\S+\.[cm]?[jt]s:\d+$`), weight: found, reach: 30, holds: true,
		parts: []part{
			{re: re(`^- /\S+`), role: place},
			{re: re(`^\s+at .*:\d+:\d+\)?`), role: place, max: 2, own: true},
		},
		stop: re(`^Node\.js v`),
	},
}

// eslintFile finds the heading with the file of a row of eslint.
func eslintFile(r *ring, _ string) []piece {
	for n := r.last; n >= r.from(); n-- {
		if l, ok := r.at(n); ok && eslintHead().MatchString(l.text) {
			return []piece{{l, place}}
		}
	}
	return nil
}

var eslintHead = re(`^\S+\.\w+$`)
