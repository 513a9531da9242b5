package wire

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
)

var run = ID{1, 2, 3}

func TestReaderReturnsEveryFrame(t *testing.T) {
	long := bytes.Repeat([]byte("x"), MaxStart)
	var stream []byte
	frames := []Frame{
		{Hello, ID{}, []byte(`{}`)},
		{Start, run, []byte(`{"cmd":"true"}`)},
		{Start, ID{4}, long},
		{Stdin, run, long[:MaxPayload]},
		{StdinClose, run, nil},
		{Ping, ID{}, []byte("12345678")},
		{Signal, run, []byte(`{"signal":2}`)},
		{Resize, run, []byte(`{"cols":80,"rows":24}`)},
		{Resume, run, make([]byte, 8)},
		{Forget, run, nil},
		{Look, ID{}, []byte(`{"paths":["/workspace"]}`)},
		{OutputTaken, run, make([]byte, 8)},
	}
	for _, f := range frames {
		stream = Append(stream, f.Kind, f.Run, f.Payload)
	}
	for name, r := range map[string]io.Reader{
		"whole":     bytes.NewReader(stream),
		"in halves": iotest.HalfReader(bytes.NewReader(stream)),
		"with EOF":  iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		t.Run(name, func(t *testing.T) {
			rd := NewReader(r, FromHost)
			for _, want := range frames {
				got, err := rd.Read()
				if err != nil || got.Kind != want.Kind || got.Run != want.Run || !bytes.Equal(got.Payload, want.Payload) {
					t.Fatalf("%v of %d bytes, %v; want %v of %d", got.Kind, len(got.Payload), err, want.Kind, len(want.Payload))
				}
			}
			if _, err := rd.Read(); err != io.EOF {
				t.Errorf("at the end: %v", err)
			}
		})
	}
}

func TestReaderRefusesInvalidFrames(t *testing.T) {
	frame := func(kind Kind, run ID, length int) []byte {
		h := make([]byte, HeaderLen)
		Put(h, kind, run, length)
		return h
	}
	for name, bad := range map[string][]byte{
		"wrong magic":   append([]byte{0xB1}, frame(Stdout, run, 0)[1:]...),
		"reserved":      append([]byte{0xB0, byte(Stdout), 1}, frame(Stdout, run, 0)[3:]...),
		"unknown kind":  frame(0x30, run, 0),
		"host's Resize": frame(Resize, run, 0),
		"host's kind":   frame(Start, run, 0),
		"too long":      frame(Stdout, run, MaxPayload+1),
		"4 GiB":         frame(Exit, run, 1<<32-1),
		"no run":        frame(Stdout, ID{}, 0),
		"run in Pong":   frame(Pong, run, 0),
		"body in none":  frame(Closed, run, 1),
		"host's Forget": frame(Forget, run, 0),
		"host's Look":   frame(Look, ID{}, 2),
		"host's Taken":  frame(OutputTaken, run, 8),
		"Seen of a run": frame(Seen, run, 2),
		"three counts":  frame(Dropped, run, 24),

		"Programs of a run": frame(Programs, run, 2),
		"behind the last":   frame(Programs+1, ID{}, 2),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewReader(bytes.NewReader(bad), FromAgent).Read(); !errors.Is(err, ErrViolation) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestReaderReportsACutFrame(t *testing.T) {
	for _, cut := range []int{1, HeaderLen - 1, HeaderLen, HeaderLen + 4} {
		stream := Append(nil, Stdout, run, []byte("hello"))[:cut]
		if _, err := NewReader(bytes.NewReader(stream), FromAgent).Read(); err != io.ErrUnexpectedEOF {
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
	}
}

func TestTakenRefusesWhatConfirmsNothing(t *testing.T) {
	f, err := NewReader(bytes.NewReader(AppendTaken(nil, run, [2]uint32{7, NoMore})), FromHost).Read()
	if err != nil {
		t.Fatal(err)
	}
	if taken, err := Taken(f); err != nil || taken != [2]uint32{7, NoMore} {
		t.Errorf("%v, %v", taken, err)
	}
	for _, payload := range [][]byte{nil, make([]byte, 4), make([]byte, 8), make([]byte, 9)} {
		if _, err := Taken(Frame{OutputTaken, run, payload}); !errors.Is(err, ErrViolation) {
			t.Errorf("%d bytes: %v", len(payload), err)
		}
	}
}

func TestStartCheckRefusesInvalidFields(t *testing.T) {
	for _, c := range []struct {
		name string
		body StartBody
		ok   bool
	}{
		{"nothing set", StartBody{}, true},
		{"usual terminal and shell", StartBody{TTY: &Size{80, 24}, Shell: "dev"}, true},
		{"largest and smallest side", StartBody{TTY: &Size{1, 1000}}, true},
		{"no columns", StartBody{TTY: &Size{0, 24}}, false},
		{"too many rows", StartBody{TTY: &Size{80, 1001}}, false},
		{"negative columns", StartBody{TTY: &Size{-1, 1 << 40}}, false},
		{"every kind of character in a shell", StartBody{Shell: "A-z_0.9"}, true},
		{"longest shell", StartBody{Shell: strings.Repeat("x", 64)}, true},
		{"shell too long", StartBody{Shell: strings.Repeat("x", 65)}, false},
		{"shell begins with a dot", StartBody{Shell: ".."}, false},
		{"shell is a path", StartBody{Shell: "a/b"}, false},
		{"shell with a line feed", StartBody{Shell: "a\n"}, false},
		{"shell not in ASCII", StartBody{Shell: "dév"}, false},
		{"usual tag", StartBody{Tag: "e-k7fq3m9x2d"}, true},
		{"tag is a path", StartBody{Tag: "../x"}, false},
		{"tag with a dot", StartBody{Tag: "a.b"}, false},
		{"tag too long", StartBody{Tag: strings.Repeat("x", 65)}, false},
		{"smallest window", StartBody{Window: MinWindow, Stdin: true}, true},
		{"largest window", StartBody{Window: MaxWindow}, true},
		{"window too small", StartBody{Window: MinWindow - 1}, false},
		{"window too large", StartBody{Window: MaxWindow + 1}, false},
		{"negative window", StartBody{Window: -1}, false},
		{"window and terminal", StartBody{Window: MinWindow, TTY: &Size{80, 24}}, false},
		{"window and shell", StartBody{Window: MinWindow, Shell: "dev"}, false},
		{"window and tag", StartBody{Window: MinWindow, Tag: "e-1"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.body.Check(); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrViolation) {
				t.Errorf("%+v: %v", c.body, err)
			}
		})
	}
}

func TestCountsAreReadBackAndNeverNegative(t *testing.T) {
	for _, want := range [][2]int64{{0, 0}, {1, 2}, {math.MaxInt64, 3}} {
		f, err := NewReader(bytes.NewReader(AppendCounts(nil, Dropped, run, want[0], want[1])), FromAgent).Read()
		var got [2]int64
		if err = errors.Join(err, Counts(f, &got[0], &got[1])); err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	for _, bad := range []string{"", "1234567", "12345678", strings.Repeat("\xff", 16)} {
		var n int64
		if err := Counts(Frame{Dropped, run, []byte(bad)}, &n, &n); !errors.Is(err, ErrViolation) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// FuzzReader checks, for both sides and for any splitting of the stream, that the frames
// read are those in the stream, that they are within the limits, and that nothing else is
// accepted.
func FuzzReader(f *testing.F) {
	f.Add(Append(nil, Stdout, run, []byte("hello")), false)
	f.Add(Append(Append(nil, Started, run, []byte("{}")), Exit, run, []byte(`{"code":0}`)), true)
	f.Add(Append(nil, Start, run, bytes.Repeat([]byte("x"), 3*MaxPayload)), false)
	f.Add(Append(Append(nil, Signal, run, []byte(`{"signal":2}`)), Resize, run, []byte(`{"cols":1}`)), false)
	f.Add(AppendCounts(Append(nil, Known, run, []byte(`{"tag":"e-1","bytes":9}`)), Dropped, run, 5, 1), true)
	f.Add(Append(AppendCounts(nil, Resume, run, 1<<40), Forget, run, nil), false)
	f.Add([]byte{0xB0, 0x43, 0, 0, 0xff, 0xff, 0xff, 0xff}, true)
	f.Fuzz(func(t *testing.T, stream []byte, agent bool) {
		whole := readAll(t, bytes.NewReader(stream), Side(agent))
		if bytewise := readAll(t, iotest.OneByteReader(bytes.NewReader(stream)), Side(agent)); !bytes.Equal(whole, bytewise) {
			t.Errorf("read at once %x, byte by byte %x", whole, bytewise)
		}
		if !bytes.HasPrefix(stream, whole) {
			t.Errorf("read %x from %x", whole, stream)
		}
	})
}

// readAll reads all frames and returns them encoded again.
func readAll(t *testing.T, r io.Reader, side Side) (all []byte) {
	rd := NewReader(r, side)
	for {
		f, err := rd.Read()
		if err != nil {
			return all
		}
		if len(f.Payload) > limit(f.Kind) || !f.Kind.sentBy(side) {
			t.Fatalf("accepted %v of %d bytes", f.Kind, len(f.Payload))
		}
		all = Append(all, f.Kind, f.Run, f.Payload)
	}
}

func BenchmarkReader(b *testing.B) {
	stream := Append(nil, Stdout, run, make([]byte, MaxPayload))
	b.SetBytes(int64(len(stream)))
	src := &loop{stream: stream}
	r := NewReader(src, FromAgent)
	for b.Loop() {
		if _, err := r.Read(); err != nil {
			b.Fatal(err)
		}
	}
}

// loop is a Reader that repeats the same bytes forever.
type loop struct {
	stream []byte
	pos    int
}

func (l *loop) Read(p []byte) (int, error) {
	n := copy(p, l.stream[l.pos:])
	l.pos = (l.pos + n) % len(l.stream)
	return n, nil
}

// TestViolationsShowOnlyNumbersAndKinds: whatever a caller of Violation passes.
func TestViolationsShowOnlyNumbersAndKinds(t *testing.T) {
	type name string
	text := "secret"
	for _, arg := range []any{text, name(text), []byte(text), &text, errors.New(text), []string{text}, struct{ s string }{text}, map[string]int{text: 1}, nil} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%q", "%.100q", "%s", "%x", "%d"} {
			err := Violation("%v of %d "+verb, Start, 7, arg)
			if want := "protocol violation: Start of 7 (not shown)"; err.Error() != want || !errors.Is(err, ErrViolation) {
				t.Errorf("%s of %T: %q, want %q", verb, arg, err, want)
			}
		}
	}
}

// TestDecodeQuotesNoPayload: invalid JSON is told by its place.
func TestDecodeQuotesNoPayload(t *testing.T) {
	for payload, want := range map[string]string{
		`{"pid":"secret"}`: "protocol violation: Started with JSON of a wrong type at byte 15 of 16",
		`{"pid":7e99}`:     "protocol violation: Started with JSON of a wrong type at byte 11 of 12",
		`secret`:           "protocol violation: Started with invalid JSON at byte 1 of 6",
	} {
		var body StartedBody
		if err := Decode(Frame{Kind: Started, Payload: []byte(payload)}, &body); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", payload, err, want)
		}
	}
}
