package policy

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A row of a table is a command with a list, and whether the list allows it.
type row struct {
	id, cmd, class, why string
	list                Commands
	allowed             bool
}

// table reads the rows of a file: id, list, command, expected, class, why.
func table(t testing.TB, file string) (rows []row) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		cell := strings.Split(lines.Text(), "\t")
		if len(cell) != 6 || cell[0] == "id" {
			continue
		}
		rows = append(rows, row{
			id: cell[0], list: listOf(cell[1]), cmd: decode(t, cell[2]),
			allowed: cell[3] == "allow", class: cell[4], why: cell[5],
		})
	}
	if len(rows) < 10 {
		t.Fatalf("%s has %d rows", file, len(rows))
	}
	return rows
}

// decode reads a JSON string, hex:BYTES or rep:N:["head","unit","tail"].
func decode(t testing.TB, cell string) string {
	t.Helper()
	if digits, ok := strings.CutPrefix(cell, "hex:"); ok {
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if rest, ok := strings.CutPrefix(cell, "rep:"); ok {
		count, list, _ := strings.Cut(rest, ":")
		var n int
		var part [3]string
		if json.Unmarshal([]byte(count), &n) != nil || json.Unmarshal([]byte(list), &part) != nil {
			t.Fatalf("cannot read %s", cell)
		}
		return part[0] + strings.Repeat(part[1], n) + part[2]
	}
	var s string
	if err := json.Unmarshal([]byte(cell), &s); err != nil {
		t.Fatalf("cannot read %s: %v", cell, err)
	}
	return s
}

// A trial is a command and a list.
type trial struct {
	cmd  string
	list Commands
}

// tables are the table of the rules, and that of the options in the manuals of guarded programs.
var tables = []string{"testdata/policy_dev.tsv", "testdata/policy_manual.tsv"}

func TestCheckMatchesTables(t *testing.T) {
	for _, file := range tables {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, r := range table(t, file) {
				err := r.list.Check(r.cmd, nil)
				if (err == nil) != r.allowed {
					t.Errorf("%s (%s, %s): %.80q: got %v", r.id, r.class, r.why, r.cmd, err)
				}
			}
		})
	}
}
