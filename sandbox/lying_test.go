package sandbox_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A liar is an agent that breaks the protocol once a command has come. It gets
// the command's run id, and a host that reads everything.
type liar func(host net.Conn, run wire.ID)

// lies are the violations of the protocol. Where the host cannot detect one, it must at
// least not wait for ever.
var lies = map[string]liar{
	"huge length":         raw(func(run wire.ID) []byte { return header(wire.Stdout, run, 1<<31) }),
	"a byte too long":     raw(func(run wire.ID) []byte { return header(wire.Stdout, run, wire.MaxPayload+1) }),
	"unknown kind":        raw(func(run wire.ID) []byte { return header(0x7f, run, 0) }),
	"host's kind":         raw(func(run wire.ID) []byte { return header(wire.Start, run, 0) }),
	"not a frame":         raw(func(wire.ID) []byte { return []byte(strings.Repeat("HTTP/1.1 200 OK\r\n", 10)) }),
	"no run id":           raw(func(wire.ID) []byte { return header(wire.Stdout, wire.ID{}, 0) }),
	"another's run id":    raw(func(wire.ID) []byte { return wire.Append(nil, wire.Stdout, wire.ID{1, 2, 3}, []byte("x")) }),
	"half a frame":        func(host net.Conn, run wire.ID) { host.Write(header(wire.Stdout, run, 100)); host.Close() },
	"half a header":       func(host net.Conn, run wire.ID) { host.Write(header(wire.Stdout, run, 0)[:7]); host.Close() },
	"hangs up":            func(host net.Conn, _ wire.ID) { host.Close() },
	"silence":             func(net.Conn, wire.ID) {},
	"output before start": raw(func(run wire.ID) []byte { return wire.Append(nil, wire.Stdout, run, []byte("x")) }),
	"started twice":       said(`{"pid":2}`, wire.Started, wire.Started),
	"refused after start": raw(func(run wire.ID) []byte {
		return wire.Append(wire.Append(nil, wire.Started, run, []byte(`{}`)), wire.Refused, run, []byte(`{}`))
	}),
	"exit 999":           exits(`{"code":999}`),
	"signal 65":          exits(`{"code":1,"signal":65}`),
	"exit is no JSON":    exits(`exit 0`),
	"a thousand left":    exits(`{"leftover":[` + strings.Repeat(`{"pid":1,"name":"x"},`, 999) + `{"pid":1,"name":"x"}]}`),
	"shell of no name":   exits(`{"shell":"saved"}`),
	"shell unheard of":   exits(`{"shell":"burnt"}`),
	"a long name":        exits(`{"leftover":[{"pid":1,"name":"` + strings.Repeat("x", 65) + `"}]}`),
	"closed before exit": raw(func(run wire.ID) []byte { return wire.Append(started(run), wire.Closed, run, nil) }),
	"consumes input that was not sent": raw(func(run wire.ID) []byte {
		return wire.Append(started(run), wire.StdinTaken, run, binary.BigEndian.AppendUint32(nil, 1<<20))
	}),
	"hello twice": raw(func(wire.ID) []byte { return wire.Append(nil, wire.Hello, wire.ID{}, []byte(`{}`)) }),
}

// windowLies break the rules of a run whose output goes to writers that do not write.
var windowLies = map[string]liar{
	"output beyond the window": raw(func(run wire.ID) []byte {
		b := started(run)
		for range 65 {
			b = wire.Append(b, wire.Stdout, run, make([]byte, wire.MaxPayload))
		}
		return b
	}),
	"stderr beyond the window": raw(func(run wire.ID) []byte {
		b := started(run)
		for range 65 {
			b = wire.Append(b, wire.Stderr, run, make([]byte, wire.MaxPayload))
		}
		return b
	}),
	"output before start":      raw(func(run wire.ID) []byte { return wire.Append(nil, wire.Stdout, run, []byte("x")) }),
	"the host's confirmation":  raw(func(run wire.ID) []byte { return wire.AppendTaken(started(run), run, [2]uint32{1, 1}) }),
	"dropped in no resumption": raw(func(run wire.ID) []byte { return wire.AppendCounts(started(run), wire.Dropped, run, 5, 1) }),
}

// An agent that sends more than the window loses its box, and the host stores no more than
// the window meanwhile.
func TestLyingAgentBreaksNoWindow(t *testing.T) {
	for name, lie := range windowLies {
		t.Run(name, func(t *testing.T) {
			m := boxtest.Manager(t, lyingLauncher{lie}, sandbox.Spec{Lease: 300 * time.Millisecond})
			box, _, err := m.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
			if err != nil {
				t.Fatal(err)
			}
			stuck := blocked(make(chan struct{}))
			defer close(stuck)
			run, err := box.Exec(t.Context(), sandbox.Command{Cmd: "true", Stdout: stuck, Stderr: stuck})
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-run.Done():
			case <-time.After(30 * time.Second):
				t.Fatal("the run did not end")
			}
			if e := run.Exit(); e.Status != sandbox.Lost || e.Err == nil || !strings.Contains(e.Err.Error(), "protocol violation") {
				t.Errorf("%+v", e)
			}
		})
	}
}

// blocked is a writer that blocks until it is closed.
type blocked chan struct{}

func (b blocked) Write(p []byte) (int, error) { <-b; return len(p), nil }

// lateLies come after an honest exit, which therefore counts.
var lateLies = map[string]liar{
	"two exits":         after(wire.Exit, `{"code":1}`),
	"output after end":  after(wire.Stdout, "x"),
	"closed after end":  after(wire.Closed, ""),
	"started after end": after(wire.Started, `{}`),
}

func header(kind wire.Kind, run wire.ID, length int) []byte {
	h := make([]byte, wire.HeaderLen)
	wire.Put(h, kind, run, length)
	return h
}

func started(run wire.ID) []byte { return wire.Append(nil, wire.Started, run, []byte(`{"pid":2}`)) }

func raw(bytes func(wire.ID) []byte) liar {
	return func(host net.Conn, run wire.ID) { host.Write(bytes(run)) }
}

func said(body string, kinds ...wire.Kind) liar {
	return raw(func(run wire.ID) (b []byte) {
		for _, k := range kinds {
			b = wire.Append(b, k, run, []byte(body))
		}
		return b
	})
}

func exits(body string) liar {
	return raw(func(run wire.ID) []byte { return wire.Append(started(run), wire.Exit, run, []byte(body)) })
}

func after(kind wire.Kind, body string) liar {
	return raw(func(run wire.ID) []byte {
		b := wire.Append(started(run), wire.Exit, run, []byte(`{"code":3}`))
		return wire.Append(b, kind, run, []byte(body))
	})
}

// lyingLauncher launches liars over a pipe in memory.
type lyingLauncher struct{ lie liar }

func (l lyingLauncher) Launch(context.Context, string, sandbox.Spec) (io.ReadWriteCloser, error) {
	host, agent := net.Pipe()
	go func() {
		r := wire.NewReader(agent, wire.FromHost)
		if _, err := r.Read(); err != nil {
			return
		}
		agent.Write(wire.Append(nil, wire.Hello, wire.ID{}, []byte(`{"pid":1,"shell":"/bin/sh"}`)))
		for {
			f, err := r.Read()
			if err != nil {
				return
			}
			if f.Kind == wire.Start {
				go l.lie(agent, f.Run)
			}
		}
	}()
	return host, nil
}

// A violation ends the agent's box, in time, and nothing else.
func TestLyingAgentLosesOnlyItsBox(t *testing.T) {
	honest := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	good, _, err := honest.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			box, exit := runLie(t, lie)
			if exit.Status != sandbox.Lost || exit.Err == nil {
				t.Errorf("%s, exit %d, %v", exit.Status, exit.Code, exit.Err)
			}
			if box.Gone() == nil {
				t.Error("its box is still there")
			}
		})
	}
	for name, lie := range lateLies {
		t.Run(name, func(t *testing.T) {
			box, exit := runLie(t, lie)
			if exit.Status != sandbox.Exited || exit.Code != 3 {
				t.Errorf("%s, exit %d, %v", exit.Status, exit.Code, exit.Err)
			}
			<-box.Done()
		})
	}
	t.Run("flood", func(t *testing.T) { testFlood(t) })
	run, err := good.Exec(t.Context(), sandbox.Command{Cmd: "exit 5"})
	if err != nil {
		t.Fatal(err)
	}
	<-run.Done()
	if run.Exit().Code != 5 {
		t.Errorf("the honest box: %+v", run.Exit())
	}
}

// TestViolationsShowNothingOfTheBox: the error of a box that ended for a violation has numbers and
// kinds of frames, and nothing else that its agent sent: a secret could be in it.
func TestViolationsShowNothingOfTheBox(t *testing.T) {
	const marker = "sup3rs3cret"
	text := `"` + marker + `"`
	lies := map[string]liar{
		"no frame": raw(func(wire.ID) []byte { return []byte(strings.Repeat(marker, 10)) }),
		"run id": raw(func(wire.ID) []byte {
			return wire.Append(nil, wire.Stdout, wire.ID([]byte(marker+"12345")), []byte(marker))
		}),
		"hello's run id": raw(func(wire.ID) []byte {
			return wire.Append(nil, wire.Hello, wire.ID([]byte(marker+"12345")), []byte(marker))
		}),
	}
	bodies := map[string]string{
		"text": marker, "string": text, "list": `[` + text + `]`, "cut": `{"x":` + text, "key": `{` + text + `}`,
		"pid": `{"pid":` + text + `}`, "step": `{"step":` + text + `,"errno":` + text + `}`, "code": `{"code":` + text + `}`,
		"shell": `{"shell":` + text + `}`, "name": `{"leftover":[{"pid":0,"name":` + text + `}]}`, "long": `{"leftover":[{"pid":1,"name":"` + strings.Repeat(marker, 9) + `"}]}`,
		"tag": `{"tag":` + text + `,"bytes":-1}`, "boot": `{"boot":` + text + `,"files":[` + text + `]}`,
		"run": `{"list":[{"seq":1,"run":` + text + `}]}`, "path": `{"list":[{"seq":-1,"path":` + text + `,"args":[` + text + `]}]}`,
		"exit": `{"list":[{"seq":1,"path":` + text + `,"args":[` + text + `],"exit":65535}]}`, "args": `{"list":[{"seq":1,"args":` + text + `}]}`,
		"map": `{"shims":{"deny":{` + text + `:1}},"env":` + text + `}`,
	}
	for kind := wire.Started - 1; kind <= wire.Programs+1; kind++ {
		for name, body := range bodies {
			lies[fmt.Sprint(kind, " ", name)] = raw(func(run wire.ID) []byte {
				if kind == wire.Seen || kind == wire.Programs || kind == wire.Pong {
					run = wire.ID{}
				}
				var begun []byte
				if kind > wire.Refused && run != (wire.ID{}) {
					begun = started(run)
				}
				return append(wire.Append(begun, kind, run, []byte(body)), strings.Repeat(marker, 3)...)
			})
		}
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := boxtest.Manager(t, lyingLauncher{lie}, sandbox.Spec{Lease: 300 * time.Millisecond, AuditPrograms: true})
			box, _, err := m.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
			if err != nil {
				t.Fatal(err)
			}
			run, err := box.Exec(t.Context(), sandbox.Command{Cmd: "true"})
			if err != nil {
				t.Fatal(err)
			}
			<-box.Done()
			<-run.Done()
			for _, err := range []error{run.Exit().Err, box.Gone()} {
				if said := fmt.Sprint(err); strings.Contains(said, marker[:4]) || strings.Contains(said, fmt.Sprintf("%x", marker[:4])) {
					t.Error(err)
				}
			}
		})
	}
}

func runLie(t *testing.T, lie liar) (*sandbox.Box, sandbox.Exit) {
	m := boxtest.Manager(t, lyingLauncher{lie}, sandbox.Spec{Lease: 300 * time.Millisecond})
	box, _, err := m.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := box.Exec(t.Context(), sandbox.Command{Cmd: "true"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-run.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the run did not end")
	}
	return box, run.Exit()
}

// The agent's refusals become errors whose text is the host's.
func TestRefusalsAreWordedByTheHost(t *testing.T) {
	for body, want := range map[string]string{
		`{"step":"shell"}`:                                  "a named shell needs bash, and box ",
		`{"step":"shell","errno":28}`:                       `cannot store the state of the shell "dev" in box `,
		`{"step":"tty","errno":5}`:                          "cannot make a terminal in box ",
		`{"step":"tty","errno":28}`:                         "no terminal is left on the machine",
		`{"step":"exec","errno":11}`:                        "as many processes as it may have",
		`{"step":"<b>","errno":-1}`:                         "error number -1",
		`{"step":"dir","errno":20}`:                         "not a directory",
		`{"step":"pipe","errno":24}`:                        "too many open files",
		`{"step":"told","text":"all is well","hint":"<b>"}`: "cannot prepare a command in box ",
	} {
		m := boxtest.Manager(t, lyingLauncher{said(body, wire.Refused)}, sandbox.Spec{})
		box, _, err := m.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
		if err != nil {
			t.Fatal(err)
		}
		run, err := box.Exec(t.Context(), sandbox.Command{Cmd: "true", Shell: "dev", TTY: &sandbox.Size{Cols: 1, Rows: 1}})
		if err != nil {
			t.Fatal(err)
		}
		<-run.Done()
		if err := run.Exit().Err; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// testFlood has an agent print without end: it is logged up to the log's cap,
// and the command's time limit ends it although the agent does not listen.
func testFlood(t *testing.T) {
	m := boxtest.Manager(t, lyingLauncher{func(host net.Conn, run wire.ID) {
		host.Write(started(run))
		frame := wire.Append(nil, wire.Stdout, run, make([]byte, wire.MaxPayload))
		for {
			if _, err := host.Write(frame); err != nil {
				return
			}
		}
	}}, sandbox.Spec{})
	m.Logs.MaxRun = 1 << 20
	box, _, err := m.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := box.Exec(t.Context(), sandbox.Command{Cmd: "yes", Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-run.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the run did not end")
	}
	if st := run.LogStats(); run.Exit().Status != sandbox.TimedOut || st.Kept > 1<<20 || st.Lost == 0 {
		t.Errorf("%+v, %+v", run.Exit(), st)
	}
}

// An agent that never sends Hello starts no box, and the launch ends in time.
func TestSilentAgentStartsNoBox(t *testing.T) {
	m := boxtest.Manager(t, silent{}, sandbox.Spec{})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := m.Start(ctx, sandbox.Owner{}, sandbox.Request{}); err == nil {
		t.Error("a box of a silent agent")
	}
	if boxes := m.Boxes(sandbox.Owner{}); len(boxes) != 0 {
		t.Errorf("%d boxes", len(boxes))
	}
}

type silent struct{}

func (silent) Launch(context.Context, string, sandbox.Spec) (io.ReadWriteCloser, error) {
	host, agent := net.Pipe()
	go io.Copy(io.Discard, agent)
	return host, nil
}
