package redact

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// A printed is a piece that a stream printed at once.
type printed struct {
	stream int
	text   string
}

// merged returns the output of a Merger for pieces. If chance is not nil, it splits
// them and calls Next at random.
func merged(t testing.TB, list []printed, chance *rand.Rand) string {
	t.Helper()
	m := Merger{Redactor: &Redactor{Values: []string{configured}}}
	var out strings.Builder
	var batch Pieces
	wrote, emitted := 0, 0
	next := func(all bool) {
		text, raw := m.Next(&batch, all)
		out.Write(text)
		emitted += raw
		batch.Reset()
	}
	for _, p := range list {
		for text := p.text; text != ""; {
			n := len(text)
			if chance != nil {
				n = 1 + chance.IntN(n)
			}
			batch.Add(p.stream, []byte(text[:n]))
			text = text[n:]
			if wrote += n; chance != nil && chance.IntN(3) == 0 {
				next(false)
			}
		}
	}
	next(true)
	if emitted != wrote {
		t.Fatalf("the text represents %d bytes of %d", emitted, wrote)
	}
	return out.String()
}

// configured is the value of the Redactors of these tests.
const configured = "kP9vWx3LmQ8sTz4RbN7yHc2D"

// shownOf masks a text line by line, as it is shown to a reader.
func shownOf(text string) string {
	r := &Redactor{Values: []string{configured}}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(r.Text(line))
	}
	return b.String()
}

// A secret that a line of the other stream interrupts is masked, for any position,
// any kind of secret and any amount of text before it.
func TestMergerMasksSecretCutByOtherStream(t *testing.T) {
	password := "postgres://app:" + "hunter2-hunter3" + "@db:5432/x"
	for name, secret := range map[string]string{
		"value": configured, "github": github, "jwt": jwt, "url": password, "assigned": "DB_PASSWORD=hunter2-hunter3",
	} {
		t.Run(name, func(t *testing.T) {
			hidden := secret[max(0, strings.Index(secret, "hunter")):]
			hidden, _, _ = strings.Cut(hidden, "@")
			for cut := 1; cut < len(secret); cut++ {
				for _, before := range []string{"", "one line\nand ", strings.Repeat("a", 65461), strings.Repeat("ab cd\n", 10505)} {
					text := shownOf(merged(t, []printed{{0, before + secret[:cut]}, {1, "error: " + configured + "\n"}, {0, secret[cut:] + " end\n"}, {0, strings.Repeat("z\n", 300)}}, nil))
					for n := range len(hidden) - 3 {
						if strings.Contains(text, hidden[n:n+4]) {
							t.Fatalf("%s cut at %d after %d bytes: %.300q", name, cut, len(before), text[len(before):])
						}
					}
					if !strings.HasSuffix(strings.TrimRight(text, "z\n"), " end") || strings.Count(text, "\n") != strings.Count(before, "\n")+302 {
						t.Fatalf("%s cut at %d: %.300q", name, cut, text[len(before):])
					}
				}
			}
		})
	}
}

// A secret is masked even if its characters arrive one by one, and a private key if
// the other stream prints between its lines.
func TestMergerMasksSecretCutOften(t *testing.T) {
	var list []printed
	for i, c := range configured + " then " + github + " done\n" {
		list = append(list, printed{0, string(c)}, printed{1, strings.Repeat("warning\n", i%3)})
	}
	lines := 0
	for line := range strings.Lines("-----BEGIN RSA " + "PRIVATE KEY-----\n" + strings.Repeat(strings.Repeat("KEYLINE0", 8)+"\n", 60) + "-----END RSA " + "PRIVATE KEY-----\nplain\n") {
		list = append(list, printed{1, line}, printed{0, "beat\nbeat\nbeat\nbeat\nbeat\n"})
		lines += 6
	}
	for seed := range uint64(20) {
		text := shownOf(merged(t, list, rand.New(rand.NewPCG(seed, 1))))
		for _, part := range []string{configured[:4], configured[9:13], github[6:10], github[20:24], "KEYLINE", "PRIVATE"} {
			if strings.Contains(text, part) {
				t.Fatalf("%q is shown: %.400q", part, text)
			}
		}
		if !strings.Contains(text, "plain\n") || strings.Count(text, "beat") != 5*63 || strings.Count(text, "\n") < lines {
			t.Fatalf("%.400q", text)
		}
	}
}

// Text without an interrupted secret stays unchanged.
func TestMergerLeavesOtherTextUnchanged(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var list []printed
		var want strings.Builder
		for range r.IntN(50) {
			p := printed{r.IntN(2), strings.Repeat("ab c\n漢-"[r.IntN(8):], 1+r.IntN(5))}
			list = append(list, p)
			want.WriteString(p.text)
		}
		if got := merged(t, list, r); got != want.String() {
			t.Fatalf("%q\nwant %q", got, want.String())
		}
	}
	// The Merger does not mask complete secrets.
	whole := "token " + github + "\n"
	if got := merged(t, []printed{{0, whole}, {1, whole}, {0, whole}}, nil); got != whole+whole+whole {
		t.Errorf("%q", got)
	}
}

// A Merger does not wait long for a line to continue, and still masks its secret.
func TestMergerBoundsHeldTextAndMasks(t *testing.T) {
	chance := rand.New(rand.NewPCG(5, 6))
	for _, cut := range []int{4, 11, 20} {
		list := []printed{{0, "a " + configured[:cut]}, {1, strings.Repeat("a line\n", 200_000)}, {0, configured[cut:] + " b\n"}}
		for _, chance := range []*rand.Rand{nil, chance} {
			text := merged(t, list, chance)
			if !strings.HasPrefix(text, "a ‹secret›a line\n") || !strings.HasSuffix(text, "a line\n‹secret› b\n") {
				t.Errorf("cut at %d: %q … %q", cut, text[:40], text[len(text)-40:])
			}
		}
	}
	m := Merger{Redactor: &Redactor{}}
	held := 0
	for range 100 {
		var batch Pieces
		batch.Add(0, []byte("x"))
		batch.Add(1, bytes.Repeat([]byte("y"), 10_000))
		_, raw := m.Next(&batch, false)
		held += batch.Size() - 32 - raw
	}
	if held > maxHold+2*margin {
		t.Errorf("%d bytes are held", held)
	}
}

// The output does not depend on how the pieces are split or when Next is called.
func FuzzMerger(f *testing.F) {
	f.Add([]byte{3, 9, 1, 30}, "x "+configured+"\ny", "error\nmore "+github+"\n", uint64(1))
	f.Add([]byte{1, 1, 1, 1, 1, 1, 1}, "password=hunter2hunter\n", pem+"\n", uint64(2))
	f.Add([]byte{200, 2}, pem, configured, uint64(3))
	f.Fuzz(func(t *testing.T, cuts []byte, one, other string, seed uint64) {
		if len(one)+len(other) > 4000 || len(cuts) > 1000 {
			return
		}
		var list []printed
		rest := [2]string{one, other}
		for i, c := range cuts {
			s := i % 2
			n := min(int(c), len(rest[s]))
			list = append(list, printed{s, rest[s][:n]})
			rest[s] = rest[s][n:]
		}
		list = append(list, printed{0, rest[0]}, printed{1, rest[1]})
		// The extent of a key without a border line depends on the available lines.
		keys := strings.Contains(one+other, keyLabel)
		whole := merged(t, list, nil)
		if got := merged(t, list, rand.New(rand.NewPCG(seed, 0))); got != whole && !keys {
			t.Errorf("in pieces %q\nat once %q", got, whole)
		}
		if got, want := strings.Count(whole, "\n"), strings.Count(one+other, "\n"); got != want {
			t.Errorf("%d lines of %d: %q", got, want, whole)
		}
	})
}

func BenchmarkMerger(b *testing.B) {
	block := strings.Repeat(ordinary, 256<<10/len(ordinary))
	for name, list := range map[string][]printed{
		"one stream":      {{0, block}},
		"lines of both":   {{0, block[:len(block)/2]}, {1, ordinary}, {0, block[len(block)/2:]}},
		"lines cut":       {{0, block[:len(block)/2-9]}, {1, ordinary}, {0, block[len(block)/2-9:]}},
		"characters each": nil,
	} {
		if list == nil {
			for i := range 40_000 {
				list = append(list, printed{i % 2, "x"})
			}
		}
		b.Run(name, func(b *testing.B) {
			m := Merger{Redactor: &Redactor{Values: []string{configured}}}
			var batch Pieces
			for b.Loop() {
				batch.Reset()
				for _, p := range list {
					batch.Add(p.stream, []byte(p.text))
				}
				m.Next(&batch, false)
			}
			b.SetBytes(int64(len(batch.text)))
		})
	}
}
