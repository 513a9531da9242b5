//go:build linux

package agent_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// The agent sends no more of a stream than the host has confirmed, and meanwhile serves
// the other stream and other runs.
func TestWindowHoldsOutputBack(t *testing.T) {
	h := start(t)
	run := h.run(wire.StartBody{Cmd: "head -c 300000 /dev/zero & echo error >&2; wait", Window: wire.MinWindow})
	sizes := map[wire.Kind]int{}
	count := func(f wire.Frame) {
		if f.Run == run {
			sizes[f.Kind] += len(f.Payload)
		}
	}
	for sizes[wire.Stdout] < wire.MinWindow || sizes[wire.Stderr] < len("error\n") {
		count(h.next())
	}
	for range 3 { // time for the agent to break the rule
		other := h.run(wire.StartBody{Cmd: "sleep 0.05"})
		for f := h.next(); f.Run != other || f.Kind != wire.Exit; f = h.next() {
			count(f)
		}
	}
	if sizes[wire.Stdout] != wire.MinWindow {
		t.Fatalf("%d bytes of stdout in a window of %d", sizes[wire.Stdout], wire.MinWindow)
	}
	for sizes[wire.Stdout] < 300000 {
		const step = 10000
		before := sizes[wire.Stdout]
		h.in.Write(wire.AppendTaken(nil, run, [2]uint32{step, 0}))
		for want := min(before+step, 300000); sizes[wire.Stdout] < want; {
			count(h.next())
		}
		if sizes[wire.Stdout] > before+step {
			t.Fatalf("%d bytes after %d were confirmed", sizes[wire.Stdout]-before, step)
		}
	}
	if _, exit := h.until(run, ""); exit.Code != 0 || exit.Open {
		t.Errorf("%+v", exit)
	}
}

// A stream that the host wants no more of is closed: the program writes to a closed pipe.
func TestNoMoreClosesAStream(t *testing.T) {
	h := start(t)
	run := h.run(wire.StartBody{Cmd: "exec cat /dev/zero", Window: wire.MinWindow})
	h.in.Write(wire.AppendTaken(nil, run, [2]uint32{wire.NoMore, wire.NoMore}))
	if _, exit := h.until(run, ""); exit.Signal != 13 {
		t.Errorf("%+v", exit)
	}
}

// A host that confirms what it was not sent, or of a run without a window, ends the agent.
func TestWrongOutputTakenEndsTheAgent(t *testing.T) {
	for name, c := range map[string]struct {
		body  wire.StartBody
		taken [2]uint32
	}{
		"no window":       {wire.StartBody{Cmd: "sleep 1000", Stdin: true}, [2]uint32{1, 0}},
		"nothing printed": {wire.StartBody{Cmd: "sleep 1000", Window: wire.MinWindow}, [2]uint32{0, 1}},
		"a huge number":   {wire.StartBody{Cmd: "sleep 1000", Window: wire.MinWindow}, [2]uint32{wire.NoMore - 1, 0}},
		"small window":    {wire.StartBody{Cmd: "sleep 1000", Window: 1}, [2]uint32{}},
		"tag":             {wire.StartBody{Cmd: "sleep 1000", Window: wire.MinWindow, Tag: "e-1"}, [2]uint32{}},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			run := h.run(c.body)
			go h.in.Write(wire.AppendTaken(nil, run, c.taken))
			h.wantFailure()
		})
	}
}

// In a persistent box a run with a window ends with its host, the next host is told nothing
// of it, and other runs go on.
func TestRunWithAWindowEndsWithItsHost(t *testing.T) {
	k := keep(t, time.Minute)
	h, _ := k.host()
	stays := h.run(wire.StartBody{Cmd: "echo first; read line; echo second", Stdin: true, Tag: "stays"})
	pid := ""
	hosted := h.run(wire.StartBody{Cmd: "echo $$; exec cat /dev/zero", Window: wire.MinWindow, Stdin: true})
	for seen := 0; seen < 2; {
		f := h.next()
		if f.Kind == wire.Stdout && f.Run == stays {
			seen++
		}
		if f.Kind == wire.Stdout && f.Run == hosted && pid == "" {
			fmt.Sscan(string(f.Payload), &pid)
			seen++
		}
	}
	k.leave(h)
	h, list := k.host()
	if len(list) != 1 || list[0].Tag != "stays" {
		t.Fatalf("%+v", list)
	}
	h.resume(stays, 0)
	h.input(stays, "go on\n")
	out, _, _, exit := h.rest(stays) // fails for a frame of another run
	if string(out) != "first\nsecond\n" || exit.Code != 0 {
		t.Errorf("%q, %+v", out, exit)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		probe := h.run(wire.StartBody{Cmd: "kill -0 " + pid + " 2>/dev/null && echo alive; sleep 0.01", Tag: fmt.Sprintf("probe-%d", h.last)})
		if out, _, _, _ := h.rest(probe); len(out) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the run with a window goes on without its host")
		}
	}
}
