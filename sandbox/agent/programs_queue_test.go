//go:build linux

package agent

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// programSink is a host of records.
type programSink struct {
	t    *testing.T
	away bool
	got  []wire.Program
}

func (s *programSink) send(frame []byte) bool {
	if s.away {
		return false
	}
	f, err := wire.NewReader(bytes.NewReader(frame), wire.FromAgent).Read()
	var body wire.ProgramsBody
	if err == nil {
		err = wire.Decode(f, &body)
	}
	if err != nil || len(body.List) == 0 || len(body.List) > wire.MaxProgramList {
		s.t.Errorf("%d records, %v", len(body.List), err)
	}
	s.got = append(s.got, body.List...)
	return true
}

// TestOldKernelsAreNotAsked: a kernel that cannot let a reported call proceed reports none.
func TestOldKernelsAreNotAsked(t *testing.T) {
	for release, want := range map[string]bool{
		"5.5.0": true, "5.10.0-28-amd64": true, "6.18.44-fc-v669": true, "10.0": true,
		"5.4.0-150-generic": false, "4.18.0-553.el8": false, "4.4.0": false, "": false, "x": false,
	} {
		if letsProceed(release) != want {
			t.Errorf("%s: %v", release, !want)
		}
	}
}

// TestProgramRecordsAreNumbered: each record of a run has the next number, and largest records
// fit a frame.
func TestProgramRecordsAreNumbered(t *testing.T) {
	sink := &programSink{t: t}
	p := newPrograms(sink.send)
	p.mute(false)
	one, two := wire.ID{1}, wire.ID{2}
	large := strings.Repeat("\x01", 2*wire.MaxProgramText)
	for i := range 60 {
		p.add(one, wire.Program{Pid: i, Path: large, Args: []string{large[:1000], large, "x"}})
		p.add(two, wire.Program{Pid: i, Path: "/bin/true", Args: make([]string, 100)})
	}
	p.settle()
	last := map[string]int64{}
	for _, r := range sink.got {
		if last[r.Run]++; r.Seq != last[r.Run] {
			t.Errorf("record %d of %s has number %d", last[r.Run], r.Run, r.Seq)
		}
		if len(r.Path) > wire.MaxProgramText || len(r.Args) > wire.MaxProgramArgs || len(strings.Join(r.Args, "")) > wire.MaxProgramText {
			t.Errorf("%d bytes, %d arguments", len(r.Path), len(r.Args))
		}
	}
	if len(sink.got) != 120 || !sink.got[0].Cut || sink.got[1].Cut || sink.got[1].More != 68 {
		t.Errorf("%d records", len(sink.got))
	}
}

// TestProgramRecordsWithoutHostAreBounded: while no host receives records, a bounded number is
// kept, and the next host learns how many there were.
func TestProgramRecordsWithoutHostAreBounded(t *testing.T) {
	sink := &programSink{t: t, away: true}
	p := newPrograms(sink.send)
	p.mute(false)
	const all = 50_000
	for i := range all {
		p.add(wire.ID{1}, wire.Program{Pid: i, Path: fmt.Sprint(i)})
		if i%1000 == 0 {
			p.settle()
		}
	}
	if p.bytes > maxProgramBytes {
		t.Errorf("%d bytes are kept", p.bytes)
	}
	sink.away = false
	p.settle()
	total, n := int64(0), 0
	for _, r := range sink.got {
		switch {
		case r.Total:
			total = r.Seq
			continue
		case r.Path != fmt.Sprint(n) || r.Seq != int64(n+1):
			t.Fatalf("record %d is %+v", n, r)
		}
		n++
	}
	if total != all || n < 10_000 || n > 20_000 || p.bytes != 0 {
		t.Errorf("%d records of %d, %d bytes are kept", n, total, p.bytes)
	}
}
