package screen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func newScreen(t testing.TB, cols, rows int) *Screen {
	return New(cols, rows, func(problem string) { t.Errorf("panic: %s", problem) })
}

// look renders a View: the lines, or the rows up to the last one that is not empty.
func look(s *Screen) string {
	v := s.Look()
	switch {
	case v.Lost:
		return "lost"
	case v.Dropped:
		return "dropped"
	case !v.Drawn:
		return string(v.Lines)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%dx%d %d:%d", v.Cols, v.Height, v.CursorRow, v.CursorCol)
	if v.Changed != nil {
		fmt.Fprintf(&b, " changed %v", v.Changed)
		if v.Scroll != 0 {
			fmt.Fprintf(&b, " scrolled %d", v.Scroll)
		}
	}
	for _, r := range v.Rows {
		b.WriteString("\n" + r.Text)
	}
	return strings.TrimRight(b.String(), "\n")
}

// TestLooks: what is printed between two looks, and what the second one shows.
func TestLooks(t *testing.T) {
	for name, test := range map[string]struct {
		cols, rows int
		printed    []string
		want       []string
	}{
		"lines":             {80, 24, []string{"one\r\ntwo\r\n"}, []string{"one\ntwo\n"}},
		"prompt":            {80, 24, []string{"hello\r\n>>> ", "1+1\r\n2\r\n>>> ", ""}, []string{"hello\n>>> ", ">>> 1+1\n2\n>>> ", ">>> "}},
		"colours and title": {80, 24, []string{"\x1b]0;title\x07\x1b[1;31mred\x1b[m \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1b[?2004h$ "}, []string{"red link$ "}},
		"progress bar":      {80, 24, []string{"10%\r20%\r100%\r\ndone\r\n"}, []string{"100%\ndone\n"}},
		"erased line":       {80, 24, []string{"working...\r\x1b[Kdone\r\n"}, []string{"done\n"}},
		"readline":          {80, 24, []string{"$ ecko\b\b\x1b[1Pho\b\b\x1b[1@x\x1b[2D\x1b[3Chi\r\n"}, []string{"$ ecxhhi\n"}},
		"backspace":         {80, 24, []string{"abc\b \b\bX"}, []string{"aX"}},
		"wrapped line":      {4, 3, []string{"abcdef\rX\r\n"}, []string{"abcdXf\n"}},
		"wide":              {80, 24, []string{"日本\b\bX é é"}, []string{"日X é é"}},
		"tabs":              {80, 24, []string{"a\tb\r\n"}, []string{"a       b\n"}},
		"invalid":           {80, 24, []string{"a\xffb\xe2\x82\x1b[mc\x00\x7f\u202e\u0085"}, []string{"a\ufffdb\ufffdc"}},
		"split sequences":   {80, 24, []string{"\xe2", "\x82", "\xac\x1b", "[3", "1m!"}, []string{"", "", "€", "€", "€!"}},
		"without return":    {80, 24, []string{"ab\nc"}, []string{"ab\n  c"}},

		"editor": {20, 4, []string{"$ vi\r\n\x1b[?1049h\x1b[2J\x1b[Hhello\r\n~\r\n~\x1b[4;1H\"new\"\x1b[1;1H", "\x1b[4;1H\x1b[K-- INSERT --\x1b[1;6H", "\x1b[?1049l$ "},
			[]string{"20x4 1:1\nhello\n~\n~\n\"new\"", "20x4 1:6 changed [3]\nhello\n~\n~\n-- INSERT --", "$ vi\n$ "}},
		"cursor up": {20, 4, []string{"a 0%\r\nb 0%\r\n\x1b[2Aa 9%\r\n", "\r\ndone\r\n"}, []string{"20x4 2:1\na 9%\nb 0%", "\ndone\n"}},
		"scrolled": {20, 6, []string{"\x1b[?1049ha\r\nb\r\nc\r\nd\r\ne\r\n:", "\r\x1b[Kf\r\n:", "\x1b[H\x1bMz"},
			[]string{"20x6 6:2\na\nb\nc\nd\ne\n:", "20x6 6:2 changed [4 5] scrolled 1\nb\nc\nd\ne\nf\n:", "20x6 1:2 changed [0] scrolled -1\nz\nb\nc\nd\ne\nf"}},
		"clear":         {20, 4, []string{"old\r\n\x1b[H\x1b[2J\x1b[3J$ ", "ls\r\nfile\r\n$ "}, []string{"20x4 1:3\n$", "$ ls\nfile\n$ "}},
		"hidden cursor": {20, 2, []string{"\x1b[?25l\x1b[Hmenu"}, []string{"20x2 0:0\nmenu"}},
		"line drawing":  {20, 2, []string{"\x1b[H\x1b(0lqk\x1b(B lqk\x1b)0\x0ex\x0fx"}, []string{"20x2 1:10\n┌─┐ lqk│x"}},
		"insert mode":   {20, 2, []string{"\x1b[Hac\b\x1b[4hb\x1b[4l"}, []string{"20x2 1:3\nabc"}},
		"repeat":        {20, 2, []string{"\x1b[Hx\x1b[3b\x1b[9999b"}, []string{"20x2 2:5\nxxxxxxxxxxxxxxxxxxxx\nxxxx"}},
		"queries":       {20, 2, []string{"\x1b[H\x1b[c\x1b[6n\x1b[?6n\x1b[5n\x1b[>c\x1b[?2026$pok\x1bZ\x05"}, []string{"20x2 1:3\nok"}},
		"reset":         {20, 2, []string{"\x1b[?1049h\x1b[Hold\x1bcnew"}, []string{"20x2 1:4\nnew"}},
		"margins":       {20, 3, []string{"\x1b[Ha\r\nb\r\nc\x1b[1;9999r\x1b[3;1H\r\nd\x1b[2;3r\x1b[3;1H\r\ne"}, []string{"20x3 3:2\nb\nd\ne"}},
		"too large":     {1000, 1000, []string{"lines\r\n", "\x1b[2J\x1b[Hx", "\r\nlines"}, []string{"lines\n", "lost", "x\nlines"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScreen(t, test.cols, test.rows)
			var got []string
			for _, p := range test.printed {
				s.Write([]byte(p))
				got = append(got, look(s))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDrawingAfterManyLines: the screen has what lines left there, however many came before.
func TestDrawingAfterManyLines(t *testing.T) {
	for _, n := range []int{5, 100, 10_000} {
		s := newScreen(t, 20, 4)
		for i := range n {
			fmt.Fprintf(s, "line %d\r\n", i+1)
		}
		s.Write([]byte("\x1b[2A*"))
		if got, want := look(s), fmt.Sprintf("20x4 2:2\nline %d\n*ine %d\nline %d", n-2, n-1, n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestMemoryIsBounded: of lines, of output for the emulator, of a line and of a cell.
func TestMemoryIsBounded(t *testing.T) {
	for name, p := range map[string]string{
		"lines": "y\r\n", "one line": "yes ", "one row": "100%\r", "drawing": "\x1b[Hx\x1b[24;1Hlong text\r\n", "string": "\x1b]0;x", "marks": "a\u0301\u0301",
		"joined": "👩\u200d", "jamo": "ᄀ", "line feeds": "\n\n\n\n", "alternate": "\x1b[?1049h\n\x1b[?1049l", "margins": "\x1b[2;3r\n\n\n",
	} {
		s := newScreen(t, 80, 24)
		s.Write([]byte("\x1b[H"))
		p := []byte(strings.Repeat(p, 300))
		for range 100 {
			s.Write(p)
			if n := len(s.lines); n > maxLines+maxLine*4 {
				t.Fatalf("%s: %d bytes of lines", name, n)
			}
			if n := len(s.tail); n > maxTail+2*len(p) {
				t.Fatalf("%s: %d bytes wait", name, n)
			}
			if n := len(s.line.cells); n > maxLine+1 {
				t.Fatalf("%s: a line of %d cells", name, n)
			}
		}
		if v := s.Look(); !v.Lost && name != "one row" {
			for _, r := range v.Rows {
				if len(r.Text) > 80*chunk {
					t.Errorf("%s: a row of %d bytes", name, len(r.Text))
				}
			}
		}
	}
}

// TestWorkIsBounded: a program that draws without end loses its screen, and has it back when it
// clears it. Its lines go on.
func TestWorkIsBounded(t *testing.T) {
	s := newScreen(t, 80, 24)
	s.Write([]byte("\x1b[?1049h"))
	p := []byte(strings.Repeat("\x1b[L", 3000))
	s.spent = maxSpent - 2*maxCost
	for i := 0; !s.lost; i++ {
		if s.Write(p); i > 1000 {
			t.Fatal("a screen was drawn without end")
		}
	}
	if got := look(s); got != "lost" {
		t.Error(got)
	}
	s.Write([]byte("\x1b[2J\x1b[Hback"))
	if got := look(s); got != "80x24 1:5\nback" {
		t.Error(got)
	}
	s.Write([]byte("\x1b[?1049l\r\nlines\r\n"))
	if got := look(s); !strings.HasSuffix(got, "\nlines\n") {
		t.Error(got)
	}
}

func TestEchoed(t *testing.T) {
	s := newScreen(t, 80, 24)
	s.Write([]byte("$ "))
	look(s)
	for _, test := range []struct {
		printed string
		want    bool
	}{{"sleep 1\r\n", true}, {"\x1b[?2004l\r", true}, {"hello\r\n", false}, {"$ ", false}} {
		if s.Write([]byte(test.printed)); s.Echoed(1) != test.want {
			t.Errorf("after %q: %v", test.printed, !test.want)
		}
	}
}

func TestResize(t *testing.T) {
	s := newScreen(t, 20, 4)
	s.Write([]byte("\x1b[H\x1b[2Jabc\r\ndef"))
	look(s)
	s.Resize(10, 2)
	s.Write([]byte("\x1b[2;1Hx"))
	if got := look(s); got != "10x2 2:2\nabc\nxef" {
		t.Error(got)
	}
}

// TestPanicEndsTheScreen: and nothing else.
func TestPanicEndsTheScreen(t *testing.T) {
	problem := ""
	s := New(80, 24, func(p string) { problem = p })
	s.Write([]byte("\x1b[Hx"))
	look(s)
	s.emulator.terminal = nil
	s.Write([]byte("\x1b[Hy"))
	if got := look(s); got != "lost" || !strings.Contains(problem, "nil pointer") {
		t.Errorf("%s, %q", got, problem)
	}
	s.Write([]byte("\x1b[2J"))
	if got := look(s); got != "lost" {
		t.Error(got)
	}
	s.Write([]byte("\r\nmore\r\n"))
	if got := look(s); !strings.HasSuffix(got, "\nmore\n") {
		t.Error(got)
	}
}

// FuzzScreen: no output makes a screen panic, whatever its size, and what it shows is printable.
func FuzzScreen(f *testing.F) {
	f.Add([]byte("\x1b[?1049h\x1b[2J\x1b[Hhello\r\n\x1b[2;3r\x1b[L\x1b[M\x1b[S\x1b[T\x1bM\x1bD"), uint8(80), uint8(24), uint8(3))
	f.Add([]byte("日本\x1b[4h\x1b[1;1H\x1b[@\x1b[P\x1b[X\x1b[2K\x1b[J\x1b[1J\x1b[99b\x1b[?6h\x1b[?7l"), uint8(1), uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, p []byte, cols, rows, at uint8) {
		s := newScreen(t, int(cols)+1, int(rows)+1)
		cut := min(int(at), len(p))
		s.Write(p[:cut])
		s.Look()
		s.Resize(int(rows)+1, int(cols)+1)
		s.Write(p[cut:])
		v := s.Look()
		text := string(v.Lines)
		for _, r := range v.Rows {
			text += r.Text
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 }); i >= 0 {
			t.Errorf("it shows %q", text[i:])
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	for name, p := range map[string]string{
		"lines": "a line of some length that scrolls\r\n", "yes": "y\r\n", "drawing": "\x1b[H\x1b[2K a line of some length that is drawn\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			s := newScreen(b, 80, 24)
			p := []byte(strings.Repeat(p, 1000))
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				s.Write(p)
				s.spent = 0
			}
		})
	}
}
