package excerpt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestSettleRemovesOverwrittenProgress(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "",
		"plain\n":                        "plain\n",
		"dos\r\nlines\r\n":               "dos\r\nlines\r\n",
		"\r\n":                           "\r\n",
		"\r":                             "\r",
		"odd\r\r\n":                      "odd\r\n",
		" \r  \n":                        "  \n",
		"\rleading\n":                    "leading\n",
		"cleared away\r            \r\n": "cleared away\r\n",
		"rm -rf / executed\rall good           \n": "rm -rf / executed\rall good           \n",
		"TEST FAILED\x1b[2K\r\x1b[1APASS\n":        "TEST FAILED\x1b[2K\r\x1b[1APASS\n",
		"OK\rFAIL\n":                               "OK\rFAIL\n",
		"a\r\nb\rc":                                "a\r\nb\rc",
		"FAIL\b\b\b\bPASS\n":                       "FAIL\b\b\b\bPASS\n",
		"go  1%\rgo 50%\rgo 99%\n":                 "\rgo 99%\n",
		"12\r13\r14":                               "\r14",
		"|\r/\r-\r\\\rdone\n":                      "\rdone\n",
		"load 1\rload 2\r\rwork 1\rwork 2\rload 3\nnext\n":             "\rwork 2\rload 3\nnext\n",
		"0% [Working]\r            \rHit:1 http://deb\n":               "\rHit:1 http://deb\n",
		"[1/9] Building a.o\x1b[K\r[9/9] Linking app\x1b[K\n":          "\r[9/9] Linking app\x1b[K\n",
		"   ━━╸  1.2/3.4 MB eta 0:00:01\r   ━━━━━ 3.4/3.4 MB 5 MB/s\n": "\r   ━━━━━ 3.4/3.4 MB 5 MB/s\n",
		"⠋ reify:a\r⠙ reify:b\radded 3 packages\n":                     "\radded 3 packages\n",
		"    Building [=>   ] 1/9: serde\r    Finished in 3 s\n":       "\r    Finished in 3 s\n",
		"Counting:  50% (1/2)\rCounting: 100% (2/2), done.\n":          "\rCounting: 100% (2/2), done.\n",
		"  0  4096M    0  0:00:40\r100  4096M  100  0:00:00\n":         "\r100  4096M  100  0:00:00\n",
		"\x1b[1G\x1b[0K⠙ one\x1b[1G\x1b[0K⠹ two\x1b[Gadded 3 GB\n":     "\radded 3 GB\n",
		"wait |\b/\b-\b\\\bdone\n":                                     "wait done\n",
		"inodes:  0/64\b\b\b\b\b 1/64\b\b\b\b\bdone   \n":              "inodes: done   \n",
		"wait ⠋\b⠙\b⠹\n":                                               "wait ⠹\n",
	} {
		if got := string(Settle([]byte(in))); got != want {
			t.Errorf("%q\n got %q\nwant %q", in, got, want)
		}
	}
	many := strings.Repeat("-", maxState+1) + "\rname one\rname two\r\nnext"
	if got, want := string(Settle([]byte(many))), strings.Repeat("-", maxState+1)+"\rname two\r\nnext"; got != want {
		t.Errorf("after a long state: %q", got)
	}
	var kinds strings.Builder
	for i := range 100 {
		fmt.Fprintf(&kinds, "%s went well\r", strings.Repeat(string(rune('a'+i%26)), 3+i/26))
	}
	if got := string(Settle([]byte(kinds.String()))); got != strings.TrimSuffix(kinds.String(), "\r") {
		t.Errorf("different states are removed: %q", got)
	}
}

// The result does not depend on how an output is split into pieces. Every byte is
// shown, omitted or overwritten, and the held text is bounded.
func FuzzSettle(f *testing.F) {
	f.Add([]byte("go 1%\rgo 2%\r\n\ra\b\b12\b\bx\r \r\n"), uint16(1))
	f.Add(bytes.Repeat([]byte("a\rbbb\rcc1\x1b[K\b"), 500), uint16(7))
	f.Add([]byte(strings.Repeat("x", maxState+1)+"\r\n"), uint16(maxState))
	f.Fuzz(func(t *testing.T, text []byte, piece uint16) { checkSettle(t, text, int(piece)+1) })
}

func checkSettle(t *testing.T, text []byte, piece int) {
	want := Settle(text)
	k := &Keeper{Limit: 1 << 20}
	for rest := text; len(rest) > 0; {
		n := min(piece, len(rest))
		k.Write(rest[:n])
		rest = rest[n:]
		if held := cap(k.line.now); held > 2*maxState || len(k.line.past) > maxPast {
			t.Fatalf("%d bytes and %d states are held back", held, len(k.line.past))
		}
		if len(text) < 1000 {
			k.settled() // does not change k
		}
	}
	all, ok := k.settled().whole()
	if !ok || !bytes.Equal(all, want) {
		t.Errorf("pieces of %d give %q, the whole gives %q", piece, all, want)
	}
	if len(want) > len(text) || len(text) > 0 && len(want) == 0 || bytes.Count(want, newline) != bytes.Count(text, newline) {
		t.Errorf("%q becomes %q", text, want)
	}
	e, _ := Cut(k, &Keeper{}, Limits{Whole: 100, Cut: 80})
	if e.Bytes != int64(len(text)) || e.Overwritten != int64(len(text)-len(want)) || e.OmittedBytes < 0 || len(want) <= 100 && e.OmittedBytes > 0 {
		t.Errorf("%+v of %d bytes, %d of them stay", e, len(text), len(want))
	}
}

// The same as FuzzSettle, for texts that are likely to go wrong.
func TestSettleIsIndependentOfPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parts := []string{"\r", "\r", "\b", "\n", "\r\n", " ", "abc", "abd", "x", "7", "50%", "\x1b[K", "\x1b[1G", "G", "\x1b[", "⠹", "漢", "\xe2", strings.Repeat("long ", 300)}
	for range 20_000 {
		var text []byte
		for range r.IntN(20) {
			text = append(text, parts[r.IntN(len(parts))]...)
		}
		if checkSettle(t, text, 1+r.IntN(9)); t.Failed() {
			return
		}
	}
}

// A progress bar takes the space of one line, however often it is drawn.
func TestProgressBarTakesOneLine(t *testing.T) {
	k := &Keeper{Limit: 8000}
	k.Write([]byte("begin\n"))
	for i := range 100_000 {
		fmt.Fprintf(k, "\rdownload %3d%% [%-50s]", i/1000, strings.Repeat("#", i/2000))
	}
	k.Write([]byte("\nend\n"))
	e, _ := Cut(k, &Keeper{}, Limits{Whole: 8000, Cut: 4000})
	want := "begin\n␍download  99% [" + strings.Repeat("#", 49) + " ]\nend\n"
	if e.Text != want || e.Lines != 3 || e.OmittedBytes != 0 || e.Bytes < 6_000_000 || e.Overwritten+int64(len(want)-2) != e.Bytes {
		t.Errorf("%+v", e)
	}
}

func BenchmarkWrite(b *testing.B) {
	for name, text := range map[string]string{
		"plain":   "a line of some output, as a build prints it\n",
		"colours": "a line of \x1b[32mGREEN\x1b[m output, as a build prints it\n",
		"dos":     "a line of some output, as a build prints it\r\n",
		"bar":     "\rdownload  99% [#########################     ]",
		"kinds":   "\rfetching of one\runpacking of one",
		"tiny":    "|\r/\r",
		"back":    "1\b2\b",
		"back7":   "words\b\b\b\b\b",
	} {
		chunk := []byte(strings.Repeat(text, 64<<10/len(text)))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(chunk)))
			b.ReportAllocs()
			k := &Keeper{Limit: 8000}
			for i := range maxPast { // the states that each new one is compared with
				fmt.Fprintf(k, "%c%s\r", 'a'+i, strings.Repeat("long", maxState/4-1))
			}
			for b.Loop() {
				k.Write(chunk)
			}
		})
	}
}
