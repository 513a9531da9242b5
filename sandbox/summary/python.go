package summary

// pythonRules are for tracebacks, pytest, unittest, doctest and pip.
var pythonRules = []rule{
	{
		hints: []string{"traceback (most"}, start: re(`Traceback \(most recent call last\)`), weight: found, reach: 200, inner: true, each: true,
		parts: []part{
			{re: re(`^[\s|]*File ".*", line \d+`), role: place, own: true, last: true},
			{re: re(`^(?: *\| )*[A-Za-z_][\w.]*(?:: .*)?$`), role: message, max: 2, last: true},
			{re: re(`^(?:First differing element|[-+] )|^\s+[-+] \S`), role: detail, max: 3},
		},
		stop: re(`^(?:={5,}|-{20,}|[\s|+-]*\+-+|[\s|]*Traceback |Ran \d+ tests?)|^\[\w+\] `),
	},
	{
		hints: []string{"file \""}, start: re(`^\s*File ".*", line \d+$`), weight: found, reach: 6, inner: true,
		parts: []part{{re: re(`^\w+(?:Error|Warning): `), role: message}},
	},
	{
		hints: []string{"error: ", "fail: "}, start: re(`^(?:ERROR|FAIL): (\S+)(?: \([^)]*\))+`), weight: found, reach: 200, holds: true,
		parts: []part{{re: re(`^(?:First differing element|[-+] )`), role: detail, max: 3}},
		stop:  re(`^={20,}|^Ran \d+ tests?`),
	},
	{
		hints: []string{"____"}, start: re(`^_{3,} (?:ERROR at (?:setup|teardown) of |ERROR collecting )?(.+?) _{3,}$`), weight: found, reach: 200,
		parts: []part{
			{re: re(`^E\s+(?:Falsifying example: |You can reproduce)`), role: detail},
			{re: re(`^E\s{9,}\w+=\S`), role: detail, max: 3}, // its arguments
			{re: re(`^E {3}\s*\S`), role: message},
			{re: re(`^\S+\.py:\d+: \w`), role: place, last: true, own: true},
			{re: re(`^E  `), role: detail, max: 3},
		},
		stop: re(`^(?:={3,}|_{3,} )`),
	},
	{
		hints: []string{"failed ", "error "}, start: re(`^(?:FAILED|ERROR) [^\s:]+\.py(?:::(\S+(?: [^-]\S*)*?))?(?: - .*)?$`), weight: found, retitle: true,
	},
	{
		hints: []string{"conflict is caused by"}, start: re(`^The conflict is caused by:`), weight: found, reach: 8,
		parts: []part{{re: re(`^ {4}\S`), role: message, max: 4}},
	},
	{
		hints: []string{"failed example"}, start: re(`^Failed example:`), weight: found, reach: 12, each: true,
		parts: []part{
			{re: re(`^(?:Expected|Got)`), role: detail, max: 2},
			{re: re(`^\s+\S`), role: message, max: 3},
		},
		stop: re(`^\*{5,}`),
	},
}
