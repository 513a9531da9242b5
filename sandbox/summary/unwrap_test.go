package summary

import "testing"

func TestLinesAreShownWithoutTheirEnvelope(t *testing.T) {
	for text, want := range map[string]string{
		`2026-11-20T10:00:01.1234567Z E   assert 99 == 100`:                              "E   assert 99 == 100",
		`#9 14.22 error[E0433]: failed to resolve`:                                       "error[E0433]: failed to resolve",
		`api-1  | 2026-11-20T10:00:01Z listening on :80`:                                 "listening on :80",
		`Nov 20 10:13:20 web1 systemd[1]: Started shop.`:                                 "systemd[1]: Started shop.",
		`{"Time":"2026-11-20","Action":"output","Output":"--- FAIL: \u001b[31mTestX\n"}`: "--- FAIL: TestX",
		`{"ts":1,"level":"warn","msg":"slow","host":"a","took":"9s"}`:                    `"level":"warn","msg":"slow"…"took":"9s"`,
		`{"log":"panic: \"no\" disk\n","stream":"stderr"}`:                               `panic: "no" disk`,
		`{"broken":"json`: `{"broken":"json`,
		`{"ts":1,"host":"only what is of no interest"}`:                          `{"ts":1,"host":"only what is of no interest"}`,
		`2026-11-20 10:00:01 ERROR disk is full`:                                 "10:00:01 ERROR disk is full",
		`E1121 03:04:21.450000       1 controller.go:331] "Reconciler error"`:    `controller.go:331] "Reconciler error"`,
		`==================== 1 failed, 12 passed in 0.31s ====================`: "==… 1 failed, 12 passed in 0.31s ==…",
		`Complete requests:      3000`:                                           "Complete requests:  3000",
		`lamp.zz  |  0.0%  2| 0.0%   2| 0.0%   8`:                                "lamp.zz  |  0.0%  2| 0.0%   2| 0.0%   8",
		`api-1  | GET /lamps | 200`:                                              "GET /lamps | 200",
		`12 | a line of code`:                                                    "12 | a line of code",
		`src/main.c:12:7: error: no`:                                             "src/main.c:12:7: error: no",
		`aaaaaaaaaa 0000000000`:                                                  "aaaaaaaaaa 0000000000",
	} {
		if got := shownForm(text); got != want {
			t.Errorf("%s:\ngot  %q\nwant %q", text, got, want)
		}
	}
}

// What is decoded can neither end a line nor control a terminal.
func TestDecodedTextIsInert(t *testing.T) {
	got := unwrapped(`{"Output":"a\u0000b\u001b]0;x\u0007c\u202ed\r\n99: forged \ud800\/\ud83d\ude00"}`)
	if want := `a b ]0;x c d  99: forged �/😀`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestShapeIgnoresNamesAndNumbers(t *testing.T) {
	for _, alike := range [][2]string{
		{`src/a.c:12: warning: unused variable 'x'`, `lib/b.c:9: warning: unused variable 'count'`},
		{`Check: CKV_AWS_1: "Ensure this"`, `Check: CKV_AWS_22: "Ensure that and more"`},
		{`deployment.apps/api-1 configured`, `deployment.apps/web-7 configured`},
	} {
		if a, b := shape(alike[0]), shape(alike[1]); a != b {
			t.Errorf("%q and %q: %q is not %q", alike[0], alike[1], a, b)
		}
	}
	if a, b := shape("cannot open the file"), shape("cannot close the file"); a == b {
		t.Errorf("%q is the shape of both", a)
	}
}
