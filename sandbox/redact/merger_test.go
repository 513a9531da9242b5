package redact

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// A printed piece is what a stream printed at once.
type printed struct {
	stream int
	text   string
}

// merged returns what a Merger makes of pieces, which it takes one by one where a
// source of chance says so.
func merged(t testing.TB, list []printed, chance *rand.Rand) string {
	t.Helper()
	m := Merger{Redactor: &Redactor{Values: []string{configured}}}
	var out strings.Builder
	var batch Pieces
	wrote, stands := 0, 0
	next := func(all bool) {
		text, raw := m.Next(&batch, all)
		out.Write(text)
		stands += raw
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
	if stands != wrote {
		t.Fatalf("the text stands for %d bytes of %d", stands, wrote)
	}
	return out.String()
}

// configured is a value that is given to the Redactors of these tests.
const configured = "kP9vWx3LmQ8sTz4RbN7yHc2D"

// shownOf is what a reader of lines sees.
func shownOf(text string) string {
	r := &Redactor{Values: []string{configured}}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(r.Text(line))
	}
	return b.String()
}

// A secret that the other stream's line cuts in two is masked, wherever the cut
// is, whatever the secret, and however much was printed before.
func TestSecretCutByTheOtherStream(t *testing.T) {
	password := "postgres://app:" + "hunter2-hunter3" + "@db:5432/x"
	for name, secret := range map[string]string{
		"value": configured, "github": github, "jwt": jwt, "url": password, "assigned": "DB_PASSWORD=hunter2-hunter3",
	} {
		hidden := secret[max(0, strings.Index(secret, "hunter")):]
		hidden, _, _ = strings.Cut(hidden, "@")
		for cut := 1; cut < len(secret); cut++ {
			for _, before := range []string{"", "one line\nand ", strings.Repeat("a", 65461), strings.Repeat("ab cd\n", 10505)} {
				text := shownOf(merged(t, []printed{{0, before + secret[:cut]}, {1, "error: " + configured + "\n"}, {0, secret[cut:] + " end\n"}, {0, strings.Repeat("z\n", 300)}}, nil))
				for n := range len(hidden) - 3 {
					if strings.Contains(text, hidden[n:n+4]) {
						t.Fatalf("%s cut at %d behind %d bytes: %.300q", name, cut, len(before), text[len(before):])
					}
				}
				if !strings.HasSuffix(strings.TrimRight(text, "z\n"), " end") || strings.Count(text, "\n") != strings.Count(before, "\n")+302 {
					t.Fatalf("%s cut at %d: %.300q", name, cut, text[len(before):])
				}
			}
		}
	}
}

// So is a secret of single characters, and a private key between whose lines the
// other stream prints.
func TestSecretCutOften(t *testing.T) {
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

// Where no secret is cut, nothing changes.
func TestMergedAsPrinted(t *testing.T) {
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
	// What is whole is left to who shows it.
	whole := "token " + github + "\n"
	if got := merged(t, []printed{{0, whole}, {1, whole}, {0, whole}}, nil); got != whole+whole+whole {
		t.Errorf("%q", got)
	}
}

// A line that goes on after a lot of the other stream's is not waited for, and
// masked all the same.
func TestLongWait(t *testing.T) {
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

// What is given does not depend on how the pieces come, nor on when they are asked
// for.
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
		// What of a key has no border is told by the lines around it, as many as are at hand.
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
