package summary

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// The formats of these tools are made up, so no rule knows them.
func TestUnknownToolsAreUnderstood(t *testing.T) {
	for name, c := range map[string]struct {
		exit  int
		parts []func(io.Writer)
		want  []string
		not   []string
	}{
		"the message is below the title": {1, parts(progress(300), lines("<<!>> FAILED suite seven", "    the ledger does not balance", "    wanted: 19", "    got: 7", "    at books/seven.zz:41"), progress(300)),
			[]string{"the ledger does not balance", "wanted: 19", "got: 7", "books/seven.zz:41"}, nil},
		"the values are below their labels": {1, parts(progress(90), lines("check seven failed:", "  Expected", "      <int>: 19", "  to equal", "      <int>: 7"), progress(90)),
			[]string{"<int>: 19", "<int>: 7"}, nil},
		"the file is a heading above": {1, parts(progress(90), lines("style/checkout.zz", "  12:3  ✖  no such property", ""), progress(90)),
			[]string{"style/checkout.zz", "no such property"}, nil},
		"exit 0 with failures": {0, parts(progress(400), lines("2026-11-20 10:00:01 ERROR receipt 8812 could not be sent", "Traceback (most recent call last):", `  File "/app/mail.py", line 61, in send`, "SMTPError: bad credentials"), progress(400)),
			[]string{"receipt 8812", "mail.py\", line 61", "bad credentials"}, nil},
		"more than four errors in a log": {0, parts(progress(100), lines("10:00:01 ERROR disk is full", "10:00:02 ERROR queue is gone", "10:00:03 ERROR mail bounced", "10:00:04 ERROR cart lost", "10:00:05 ERROR token expired", "10:00:06 ERROR stock negative"), progress(100)),
			[]string{"disk is full", "queue is gone", "mail bounced", "cart lost", "token expired", "stock negative"}, nil},
		"one line unlike all others": {0, parts(tenants(200), lines("[201/400] moving tenant acme-eu ... left out: its column has another type, see ticket 7"), tenants(200)),
			[]string{"acme-eu"}, nil},
		"the last of a progress": {1, parts(progress(77), lines("thing 5 failed: no disk")),
			[]string{"step 77 of very many", "no disk"}, []string{"step 1 of"}},
		"a high severity first": {1, parts(findings(60, "low"), lines("Issue: the password is in the code", "   Severity: HIGH", "   Location: auth.zz:3", ""), findings(60, "low")),
			[]string{"the password is in the code", "auth.zz:3"}, nil},
		"an error before advice": {1, parts(progress(90), lines("error: cannot reach the registry, did you mean --offline?"), progress(90)),
			[]string{"cannot reach the registry"}, nil},
		"counters at zero": {1, parts(func(w io.Writer) {
			for i := range 60 {
				fmt.Fprintf(w, "%s_error_total:0\n%s_failures=0\n", letters[i%26], letters[i%26])
			}
		}, lines("out of memory at shelf 7"), progress(60)), []string{"out of memory at shelf 7"}, []string{"_error_total:0\n2"}},
		"both ends of a long line": {1, parts(progress(90), lines("error: the value "+strings.Repeat("is much too long ", 40)+"[rule-of-length]"), progress(90)),
			[]string{"error: the value", "[rule-of-length]"}, nil},
		"tracebacks apart": {1, parts(traceback("KeyError: 'sku'", 11), progress(90), traceback("ValueError: not a number", 22), progress(90)),
			[]string{"KeyError: 'sku'", "line 11", "ValueError: not a number", "line 22"}, nil},
		"findings without a word of trouble": {1, parts(prose(90), lines("books/seven.zz:41:2: prefer one entry a line", "books/shelf.zz(7): the sum stands alone"), prose(90), prose(90)),
			[]string{"prefer one entry a line", "the sum stands alone"}, nil},
		"findings of style after an error": {1, parts(styleFindings(90), lines("*** ERROR: the page list of the manual is not closed"), progress(60)),
			[]string{"the manual is not closed", "pages/"}, nil},
		"explanations below findings": {1, parts(progress(60), explained("the shelf stands alone", "two keys for one door", "a lamp without its shade", "paper of the wrong size"), progress(60)),
			[]string{"the shelf stands alone", "two keys for one door", "a lamp without its shade", "paper of the wrong size"}, nil},
		"a file that was not read": {1, parts(manyInvalid(80), lines("shop/late.zz:9:1: unterminated comment"), manyInvalid(80), progress(60)),
			[]string{"shop/late.zz:9:1: unterminated comment"}, nil},
		"the result of a solver": {0, parts(prose(90), lines("SHELF PLAN FOUND", "Status:     BALANCED"), prose(90), lines("books converged"), prose(60)),
			[]string{"SHELF PLAN FOUND", "BALANCED", "books converged"}, nil},
		"values of short names": {0, parts(prose(90), prose(90), lines("[u = 3,v = 4]")),
			[]string{"[u = 3,v = 4]"}, nil},
		"what a bundler emits": {0, parts(lines("npm warn Unknown user config \"shelf\". It will not work in the next version of npm."), prose(90), lines("page main.zz [emitted] (name: main)"), prose(90)),
			[]string{"main.zz [emitted]"}, []string{"npm warn"}},
		"the largest of a list of counts": {0, parts(shuffledCounts(30)),
			[]string{"2790 romeo", "2697 echo", "2604 victor"}, nil},
		"clocks are no counts": {0, parts(func(w io.Writer) {
			for i := range 60 {
				fmt.Fprintf(w, "%d %s takes %s\n", 1763800000+3*i, letters[i%26], letters[i*7%26])
			}
		}), nil, []string{": 1763800057 "}},
		"the place is above the code": {1, parts(prose(90), lines("shelf/late.zz:17:9:", "", "   17 |   put the lamp", "      |         1", "Error: there is no lamp at (1)", ""), prose(90)),
			[]string{"shelf/late.zz:17:9", "there is no lamp"}, nil},
		"the step that was running": {1, parts(prose(90), func(w io.Writer) {
			for i := range 40 {
				fmt.Fprintf(w, "== shelf %d ==\nbook of %s: %d pages\n", i, letters[i%26], i*i)
			}
		}, lines("== shelf 41 ==", "Error in bind(): the shelf of "+strings.Repeat("very ", 50)+"many books has no back", "Calls: read -> bind", "In addition: two lamps are out", "Quit")),
			[]string{"== shelf 41 == [×41, 91-171]", "has no back"}, nil},
		"the late message of a record": {1, parts(func(w io.Writer) {
			for i, said := range []string{"the shelf has no back", "two lamps for one hook", "a book of no pages", "never close the door", "count from zero here"} {
				fmt.Fprintf(w, `{"rule":"Z%d","severity":"error","location":{"file":"/home/dev/%s/%s/src/%s.zz","line":%d,"column":7},"end":{"file":"","line":0},"message":"%s, as it must be"}`+"\n",
					1000+i, strings.Repeat("deep/", 20), letters[i], letters[i*3], 10+i, said)
			}
		}), []string{"the shelf has no back", "two lamps for one hook", "a book of no pages", "never close the door", "count from zero here"}, nil},
		"trouble among results": {0, parts(prose(70), written(20), lines("the shelf of hall seven is corrupt"), written(20), prose(70)),
			[]string{"hall seven is corrupt"}, nil},
		"names that are not known": {0, parts(lines("reading shelf.conf", `unknown setting "lampp"`, `unknown setting "dor"`, `unknown setting "bokos"`), prose(90), written(3), prose(90)),
			[]string{`"lampp"`, `"dor"`, `"bokos"`}, nil},
		"what a copier removes": {0, parts(shelves(90), lines("removing .old-lamp"), shelves(90), lines("removing hall/late.bak"), shelves(90)),
			[]string{"removing .old-lamp", "removing hall/late.bak", "lines by directory"}, nil},
		"a server that fails": {0, parts(answers(40, 200), answers(3, 503), answers(40, 200), lines("Requests:  83")),
			[]string{"HTTP/1.1 503  1 ms ==> /lamp"}, []string{"HTTP/1.1 503  1 ms ==> /lamp [×4"}},
		"levels of one letter": {1, parts(prose(50), lines("E: lamp: shade-too-wide [hall/lamp]"), prose(60), func(w io.Writer) {
			for i := range 40 {
				fmt.Fprintf(w, "P: lamp: the %s of %s is missing in %s\n", letters[i%26], letters[i/26], letters[i*3%26])
			}
		}, prose(70)), []string{"E: lamp: shade-too-wide"}, nil},
		"debug messages are no failures": {0, parts(prose(60), lines("lampd: debug: [7] hall: can't set the dimmer", "lampd: debug: [9] door: can't set the dimmer"), prose(60), lines("lampd: error: the door is open"), prose(60)),
			[]string{"the door is open"}, []string{"dimmer"}},
		"a table of measurements": {0, parts(prose(90), lines("shelf      books     pages    weight", "oak         70      9120     41.25", "elm          8       310      2.75", ""), written(6), prose(90)),
			[]string{"oak  70", "elm  8"}, nil},
		"the ends of long errors, before similar ones": {0, parts(longErrors(6, "the lamp is missing"), longErrors(1, "the door is refused"), prose(60)),
			[]string{"the lamp is missing", "the door is refused", "hall: \"hall-6\""}, nil},
		"a record with a stack": {0, parts(prose(90), lines(`{"level":50,"time":"2026-11-20T03:01:07.815Z","pid":44,"hostname":"worker","job":"bind","err":{"type":"Torn","stack":"Torn: `+strings.Repeat(`at press (/src/press.zz:7:24)\n  `, 40)+`","message":"page 40 is torn"},"tries":3}`), prose(90)),
			[]string{"page 40 is torn", `"tries":3`}, []string{"worker", "press.zz"}},
		"what was found and scanned": {1, parts(prose(90), lines("Scanned 91 shelves (2 lamps)", "✖ Found 7 crooked books!"), prose(90)),
			[]string{"Scanned 91 shelves", "Found 7 crooked books"}, nil},
		"a numbered list is no list of failures": {1, parts(func(w io.Writer) {
			for i := range 40 {
				fmt.Fprintf(w, "%d) carry %s to %s and %s\n", i+1, letters[i%26], letters[i*7%26], letters[i/26])
			}
		}, lines("the shelf cannot be lifted"), progress(60)),
			[]string{"the shelf cannot be lifted"}, nil},
		"rows without errors are no counts": {1, parts(func(w io.Writer) {
			for i := range 40 {
				fmt.Fprintf(w, "copied table %d without errors\n", i)
			}
		}, lines("panic: the index is corrupt"), progress(9)),
			[]string{"the index is corrupt"}, []string{"copied table 1 ", "copied table 38 "}},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Options{})
			for _, write := range c.parts {
				write(s)
			}
			text := s.Summary(Exit{Code: c.exit})
			for _, part := range c.want {
				if !strings.Contains(text, part) {
					t.Errorf("%q is missing in:\n%s", part, text)
				}
			}
			for _, part := range c.not {
				if strings.Contains(text, part) {
					t.Errorf("%q should not be in:\n%s", part, text)
				}
			}
		})
	}
}

func parts(list ...func(io.Writer)) []func(io.Writer) { return list }

func lines(list ...string) func(io.Writer) {
	return func(w io.Writer) { io.WriteString(w, strings.Join(list, "\n")+"\n") }
}

func progress(n int) func(io.Writer) {
	return func(w io.Writer) {
		for i := range n {
			fmt.Fprintf(w, "step %d of very many\n", i+1)
		}
	}
}

func tenants(n int) func(io.Writer) {
	return func(w io.Writer) {
		for i := range n {
			fmt.Fprintf(w, "[%d/400] moving tenant %s-%s ... ok (0 errors, %d rows)\n", i, letters[i%26], letters[i/26], i%9)
		}
	}
}

func findings(n int, severity string) func(io.Writer) {
	return func(w io.Writer) {
		for i := range n {
			fmt.Fprintf(w, "Issue: the name %s is too short\n   Severity: %s\n   Location: %s.zz:%d\n\n", letters[i%26], severity, letters[i%26], i)
		}
	}
}

func traceback(message string, n int) func(io.Writer) {
	return lines("Traceback (most recent call last):", fmt.Sprintf(`  File "/app/run.py", line %d, in go`, n), "    go()", message)
}

// prose has lines of different words, none of which says anything.
func prose(n int) func(io.Writer) {
	return func(w io.Writer) {
		for i := range n {
			fmt.Fprintf(w, "%s %s and %s, as always\n", letters[i%26], letters[i*7%26], letters[i/26])
		}
	}
}

func shelves(n int) func(io.Writer) {
	return func(w io.Writer) {
		for i := range n {
			fmt.Fprintf(w, "hall/%s/%s.zz is the same\n", letters[i%7], letters[i%26])
		}
	}
}

func answers(n, status int) func(io.Writer) {
	return func(w io.Writer) {
		for i := range n {
			fmt.Fprintf(w, "HTTP/1.1 %d  %d ms ==> /lamp\n", status, i+1)
		}
	}
}

func longErrors(n int, message string) func(io.Writer) {
	return func(w io.Writer) {
		for i := range n {
			fmt.Fprintf(w, "2026/11/22 09:00:%02d [error] 7#7: *%d %s %q, shelf: %q, reader: \"of the long list of readers\", request: \"GET /books/%d\", hall: \"hall-%d\", door: \"the one to the north\"\n",
				n, i, message, letters[3*i], letters[2*i], i, n+5)
		}
	}
}

func written(n int) func(io.Writer) {
	return func(w io.Writer) {
		for i := range n {
			fmt.Fprintf(w, "%s of %s is written, which took %d ms; a report of all %s pages was generated for the reader and is ready now\n", letters[i%26], letters[i*7%26], i, letters[i*3%26])
		}
	}
}

func styleFindings(n int) func(io.Writer) {
	return func(w io.Writer) {
		for i := range n {
			fmt.Fprintf(w, "pages/%s.py:%d:1: the %s of %s is never read, so consider to remove it, or to use it in %s\n", letters[i%26], i+1, letters[i*3%26], letters[i*7%26], letters[i/26])
		}
	}
}

// explained has findings, each with an explanation that sounds worse than the finding.
func explained(findings ...string) func(io.Writer) {
	return func(w io.Writer) {
		for i, f := range findings {
			fmt.Fprintf(w, "books/%s.zz:%d:4: %s\n  An invalid %s could not be found, or its %s is missing in the %s\n  that is not %s. Unexpected failures of the %s are denied.\n",
				letters[i], 10*i+5, f, letters[3*i], letters[5*i], letters[3*i+1], letters[2*i], letters[7*i])
		}
	}
}

func manyInvalid(n int) func(io.Writer) {
	return func(w io.Writer) {
		for i := range n {
			fmt.Fprintf(w, "shop/%s.zz:%d:1: invalid %s of %s in %s\n", letters[i%26], i, letters[i%26], letters[i/26], letters[i*7%26])
		}
	}
}

func shuffledCounts(n int) func(io.Writer) {
	return func(w io.Writer) {
		for i := range n {
			fmt.Fprintf(w, "%7d %s of the %s, which is a long name of a shelf\n", 93*(i*7%n+1), letters[i%26], letters[i*5%26])
		}
	}
}
