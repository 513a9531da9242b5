package summary

// rustRules are for rustc, cargo and its tests.
var rustRules = []rule{
	{
		hints: []string{"error: ", "error["}, start: re(`^error(?:\[\w+\])?: (?:could not compile|aborting due to|test failed|\d+ targets? failed)`), weight: step,
	},
	{
		hints: []string{"error: ", "error["}, start: re(`^error(?:\[E\d+\])?: `), weight: found, reach: 14, inner: true, each: true,
		parts: []part{
			{re: re(`^\s*--> \S+:\d+`), role: place},
			{re: re(`^\s*\d* *\|.*(?:\^|--).*[a-zA-Z]`), role: detail},
			{re: re(`^\s*(?:= (?:note|help)|help|note): |^\s+= `), role: detail, max: 2},
			{re: re(`^  [A-Za-z\x60].*`), role: detail, max: 2},
		},
	},
	{
		hints: []string{" stdout ----"}, start: re(`^---- (\S+) stdout ----`), weight: found, reach: 80, holds: true,
		parts: []part{
			{re: re(`^Error: `), role: message},
			{re: re(`^\s+at (?:\./)?\S+\.rs:\d+`), role: place, max: 2, own: true},
		},
		stop: re(`^(?:----|failures:|test result)`),
	},
	{hints: []string{"failed"}, start: re(`^test (\S+)(?: - [^.]*)? \.\.\. FAILED`), weight: found},
	{
		hints: []string{"panicked at"}, start: re(`^\s*thread '.*panicked at `), weight: found, reach: 60, inner: true,
		parts: []part{
			{re: re(`^\s*(?:left|right): `), role: detail, max: 2},
			{re: re(`^\s+at (?:\./)?[^/]\S*\.rs:\d+`), role: place, own: true},
			{re: re(`^note: |^\s+\d+: |^\s+at |^stack backtrace`), role: detail, max: -1},
			{re: re(`\S`), role: message, max: 2},
		},
		stop: re(`^(?:----|failures:|test )`),
	},
}
