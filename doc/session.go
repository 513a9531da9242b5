//go:build ignore

// This program draws doc/session.svg: it runs three commands through bin/warmbox
// in a small Python project that it writes for the purpose, and renders what
// warmbox printed as a picture of a terminal. It needs what scripts/try sets up.
//
//	go run doc/session.go
package main

import (
	"bytes"
	"fmt"
	"html"
	"log"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// commands are run in order; of each reply the first lines are drawn.
var commands = []struct {
	cmd  string
	most int
}{
	{"python3 --version; id -un", 9},
	{"curl -sS https://example.com", 9},
	{"python3 -m unittest -v", 22},
}

const (
	columns    = 116 // longer lines are wrapped
	lineHeight = 18
	charWidth  = 7.85
	margin     = 16
)

func main() {
	log.SetFlags(0)
	dir, err := os.MkdirTemp("", "parser-")
	check(err)
	defer os.RemoveAll(dir)
	check(writeProject(dir))
	var lines []string
	for i, c := range commands {
		if i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, "$ warmbox exec --workspace . -- '"+c.cmd+"'")
		lines = append(lines, shown(reply(dir, c.cmd), c.most)...)
	}
	check(os.WriteFile("doc/session.svg", draw(lines), 0o644))
}

// reply returns what warmbox prints. It exits as the command does, so that an exit
// code is no error here.
func reply(dir, cmd string) string {
	program, err := filepath.Abs("bin/warmbox")
	check(err)
	c := exec.Command(program, "exec", "--workspace", ".", "--", cmd)
	c.Dir = dir
	c.Env = append(os.Environ(), "WARMBOX_LOG_DIR="+filepath.Join(os.TempDir(), "warmbox-logs"))
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil && len(out) == 0 { // no command ran
		log.Fatal(err)
	}
	return strings.TrimRight(string(out), "\n")
}

// shown returns the first lines of a reply, and says how many it leaves out.
func shown(reply string, most int) []string {
	lines := strings.Split(reply, "\n")
	if n := len(lines) - most; n > 0 {
		return append(lines[:most], fmt.Sprintf("# %d more lines of this reply are not drawn", n))
	}
	return lines
}

func draw(lines []string) []byte {
	var rows []string
	for _, l := range lines {
		rows = append(rows, wrap(l)...)
	}
	width, height := int(math.Ceil(columns*charWidth))+2*margin, len(rows)*lineHeight+2*margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13" fill="#d0d7de">`+"\n", width, height)
	b.WriteString(`<rect width="100%" height="100%" rx="8" fill="#161b22"/>` + "\n")
	for i, row := range rows {
		fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve"%s textLength="%.0f" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n",
			margin, margin+13+i*lineHeight, style(row), float64(utf8.RuneCountInString(row))*charWidth, html.EscapeString(row))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// wrap breaks a line at the last space before the picture's edge.
func wrap(line string) (rows []string) {
	runes := []rune(line)
	for len(runes) > columns {
		end := columns
		for i := columns; i > columns/2; i-- {
			if runes[i] == ' ' {
				end = i + 1
				break
			}
		}
		rows = append(rows, strings.TrimRight(string(runes[:end]), " "))
		runes = runes[end:]
	}
	return append(rows, string(runes))
}

// style colours a row by what it is: what a user types, a reply's facts, the headers above
// output, and this program's own remark.
func style(row string) string {
	switch {
	case strings.HasPrefix(row, "$ "):
		return ` fill="#7ee787" font-weight="600"`
	case strings.HasPrefix(row, "exit "), strings.HasPrefix(row, "summary: "):
		return ` fill="#ffffff"`
	case strings.HasPrefix(row, "--- "), strings.HasPrefix(row, "hint: "), strings.HasPrefix(row, "[… "):
		return ` fill="#79c0ff"`
	case strings.HasPrefix(row, "# "):
		return ` fill="#8b949e" font-style="italic"`
	}
	return ""
}

// writeProject writes a Python project of 240 tests, two of which fail.
func writeProject(dir string) error {
	var b strings.Builder
	b.WriteString("import unittest\n\n\ndef parse_rate(text):\n    return int(text.rstrip('%')) / 100\n\n\nclass TestRates(unittest.TestCase):\n")
	for i := range 240 {
		want := fmt.Sprintf("%d / 100", i)
		if i == 57 {
			want = "0.75"
		}
		input := fmt.Sprintf("%d%%", i)
		if i == 191 {
			input = "191 percent"
		}
		fmt.Fprintf(&b, "    def test_rate_%d(self):\n        self.assertEqual(parse_rate('%s'), %s)\n\n", i, input, want)
	}
	if os.Getuid() == 0 { // commands never run as root
		if err := os.Chown(dir, 1000, 1000); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "test_rates.py"), []byte(b.String()), 0o644)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
