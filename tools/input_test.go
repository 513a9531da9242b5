package tools

import (
	"strconv"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"

	"github.com/warmbox/warmbox/sandbox"
)

// A conversation is the client of a test.
type conversation struct {
	t *testing.T
	*client.Client
}

// begin starts a command and returns its execId.
func (c conversation) begin(cmd, more string) string {
	c.t.Helper()
	a := callTool(c.t, c.Client, "exec", `{"cmd":`+strconv.Quote(cmd)+more+`}`)
	id, _ := a.fields["execId"].(string)
	if a.fields["status"] != "running" {
		c.t.Fatalf("%s", a.json)
	}
	return id
}

// answers sends input and checks that the output has a text, in this reply or later ones.
func (c conversation) answers(id, input, want string) {
	c.t.Helper()
	reply := callTool(c.t, c.Client, "input", `{"execId":"`+id+`",`+input+`}`)
	if strings.Contains(reply.text, want) {
		return
	}
	more := callTool(c.t, c.Client, "logs", `{"execId":"`+id+`","grep":`+strconv.Quote(want)+`,"waitSeconds":30}`)
	if more.fields["matches"] == nil || more.fields["matches"] == 0.0 {
		c.t.Errorf("%s: no %q in\n%s%s", input, want, reply.text, more.text)
	}
}

func TestInputReachesTheCommand(t *testing.T) {
	c := conversation{t, connect(t, newSet(t))}
	reader := c.begin(`read -r name; echo "hello $name"; cat; echo over`, `,"background":true`)
	c.answers(reader, `"text":"you\n"`, "hello you")
	c.answers(reader, `"text":"more\n","eof":true`, "over")
	late := callTool(t, c.Client, "input", `{"execId":"`+reader+`","text":"late"}`)
	if late.fields["code"] == nil {
		t.Error(late.json)
	}

	trapper := c.begin(`trap 'echo again' USR1; trap 'echo bye; exit 3' INT; echo ready; while :; do sleep 0.05; done`, `,"background":true`)
	callTool(t, c.Client, "logs", `{"execId":"`+trapper+`","grep":"ready","waitSeconds":30}`)
	c.answers(trapper, `"signal":"USR1"`, "again")
	c.answers(trapper, `"signal":"INT"`, "bye")
	callTool(t, c.Client, "logs", `{"execId":"`+trapper+`","grep":"never","waitSeconds":30}`).has(t, map[string]any{"status": "exited", "exitCode": 3})

	killed := c.begin(`trap '' TERM INT HUP; while :; do sleep 0.05; done`, `,"background":true`)
	callTool(t, c.Client, "input", `{"execId":"`+killed+`","signal":"KILL","waitSeconds":30}`).has(t, map[string]any{"status": "killed"})
}

// TestTerminalHasSizeAndEcho: programs behave as in a terminal of a person.
func TestTerminalHasSizeAndEcho(t *testing.T) {
	c := conversation{t, connect(t, newSet(t))}
	callTool(t, c.Client, "exec", `{"cmd":"test -t 0 && test -t 1 && test -t 2 && stty size","tty":true}`).has(t, map[string]any{"exitCode": 0, "stdout": "24 80\n"})
	callTool(t, c.Client, "exec", `{"cmd":"stty size","tty":true,"cols":132,"rows":50}`).has(t, map[string]any{"stdout": "50 132\n"})
	callTool(t, c.Client, "exec", `{"cmd":"test -t 0 || test -t 1"}`).has(t, map[string]any{"exitCode": 1})

	shell := c.begin("bash --norc -i", `,"tty":true,"waitSeconds":0`)
	c.answers(shell, `"text":"PS1='ready> '\n"`, "ready> ")
	c.answers(shell, `"text":"echo $((6*7))\n"`, "42")
	c.answers(shell, `"text":"sleep 100\n"`, "sleep 100")
	c.answers(shell, `"text":"\u0003"`, "^C")
	c.answers(shell, `"cols":99,"rows":33`, "")
	c.answers(shell, `"text":"stty size\n"`, "33 99")
	c.answers(shell, `"eof":true`, "exit")
	callTool(t, c.Client, "logs", `{"execId":"`+shell+`","grep":"never","waitSeconds":30}`).has(t, map[string]any{"status": "exited"})

	fed := c.begin(`read first; read second; echo "$first and $second"`, `,"tty":true,"stdin":"one\n","waitSeconds":0`)
	c.answers(fed, `"text":"two\n"`, "one and two")
	question := c.begin(`read -p "Really? " yes; echo "you said $yes"`, `,"tty":true,"waitSeconds":0`)
	callTool(t, c.Client, "logs", `{"execId":"`+question+`","grep":"Really","waitSeconds":30}`)
	c.answers(question, `"text":"yes\n"`, "you said yes")
}

func TestInputErrorsSayWhatToTry(t *testing.T) {
	c := conversation{t, connect(t, newSet(t))}
	noInput := c.begin("sleep 1000", `,"waitSeconds":0`)
	for args, want := range map[string]string{
		`{"execId":"` + noInput + `","text":"x"}`:                "is /dev/null",
		`{"execId":"` + noInput + `","eof":true}`:                "is /dev/null",
		`{"execId":"` + noInput + `","cols":80,"rows":24}`:       "has no terminal",
		`{"execId":"` + noInput + `"}`:                           "nothing to send",
		`{"execId":"` + noInput + `","cols":80}`:                 "cols and rows must be given together",
		`{"execId":"` + noInput + `","signal":"STOP"}`:           "cannot be sent",
		`{"execId":"` + noInput + `","text":1}`:                  "text must be a string",
		`{"execId":"e-none","text":"x"}`:                         "no command with the execId",
		`{"text":"x"}`:                                           "needs the argument execId",
		`{"execId":"` + noInput + `","eof":true,"waitSecond":1}`: `Did you mean "waitSeconds"?`,
		`{"execId":"` + noInput + `","eof":1,"waitSeconds":-1}`:  "eof must be true or false",
	} {
		a := callTool(t, c.Client, "input", args)
		a.says(t, want)
		if !a.isError {
			t.Errorf("%s is not an error", args)
		}
	}
	callTool(t, c.Client, "exec", `{"cmd":"true","cols":80}`).has(t, map[string]any{"code": sandbox.InvalidArgument})
	callTool(t, c.Client, "exec", `{"cmd":"true","tty":true,"cols":0}`).has(t, map[string]any{"code": sandbox.InvalidArgument})
}

func TestNamedShellKeepsItsState(t *testing.T) {
	c := connect(t, newSet(t))
	callTool(t, c, "exec", `{"cmd":"mkdir deep; cd deep; x='a b'; f() { echo \"f $x\"; }","shell":"dev"}`).has(t, map[string]any{"exitCode": 0, "hint": nil})
	callTool(t, c, "exec", `{"cmd":"f; basename $PWD","shell":"dev"}`).has(t, map[string]any{"stdout": "f a b\ndeep\n"})
	callTool(t, c, "exec", `{"cmd":"echo [$x]"}`).has(t, map[string]any{"stdout": "[]\n"})
	killed := callTool(t, c, "exec", `{"cmd":"x=gone; sleep 100","shell":"dev","timeoutSeconds":0.2}`)
	killed.has(t, map[string]any{"status": "timeout"})
	killed.says(t, `The shell "dev" has the same state as before this command`)
	callTool(t, c, "exec", `{"cmd":"f","shell":"dev"}`).has(t, map[string]any{"stdout": "f a b\n"})
	callTool(t, c, "exec", `{"cmd":"true","shell":"no good"}`).has(t, map[string]any{"code": sandbox.InvalidArgument})
}
