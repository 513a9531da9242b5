package summary

// scriptRules are for Ruby, PHP, Perl, Lua, Tcl and their test tools.
var scriptRules = []rule{
	{
		hints: numbered, start: re(`^\s*\d+\) (?:Failure:|Error:|\S.*)$`), weight: found, reach: 30, holds: true, entry: true,
		parts: []part{
			{re: re(`^\s+Failure/Error: `), role: message},
			{re: re(`^\s+(?:expected|got|actual)\b.*: |^\s*[-+](?:[^-+].*|)$|^(?:Expected|  Actual): `), role: detail, max: 3},
			{re: re(`^\s*(?:# )?(?:\./|/)\S+:\d+|\[\S+:\d+\]:?$|^\s+at .*:\d+:\d+\)?`), role: place, own: true},
			{re: re(`^Failed asserting|^\s*\S*(?:Error|Exception)\b|^\w+#\w+`), role: message, max: 2},
		},
		stop: re(`^\s*\d+\) |^(?:Finished|ERRORS|FAILURES|Tests:|--$|There (?:was|were))`),
	},
	{
		hints: []string{"failed test"}, start: re(`^#\s+Failed test`), weight: found, reach: 8,
		parts: []part{
			{re: re(`^#\s+(?:got|expected): `), role: detail, max: 2},
			{re: re(`^#\s+at \S+ line \d+`), role: place},
			{re: re(`^#\s{3,}\S`), role: message, max: 2},
		},
		stop: re(`^[^#]`),
	},
	{
		hints: []string{"fatal error", "parse error"}, start: re(`^(?:PHP )?(?:Fatal|Parse) error: `), weight: found, reach: 6,
		parts: []part{{re: re(`^#\d+ /\S+\(\d+\)|^\s+thrown in`), role: place}},
	},
	{
		hints: []string{": in "}, start: re(`^(?:\S+: )?\S+\.rb:\d+:in .*: .*\(.*\)$`), weight: found, reach: 10,
		parts: []part{{re: re(`^\s+from \S+:\d+:in`), role: place, own: true}},
		stop:  re(`^\S`),
	},
	{
		hints: []string{"while executing"}, start: re(`^\s+while executing$`), weight: found, reach: 30, back: lineBefore, // Tcl
		parts: []part{{re: re(`^\s+\((?:procedure|file|object|class) .* line \d+\)$`), role: place, max: 3}},
		stop:  re(`^$`),
	},
	{hints: []string{" line "}, start: re(`^\S.* at \S+ line \d+(?:, (?:near|<).*)?\.?$`), weight: found},
}

// lineBefore finds the message of a trace without a heading: the line before it.
func lineBefore(r *ring, _ string) []piece {
	l, ok := r.at(r.last)
	if !ok {
		return nil
	}
	return []piece{{l, title}}
}
