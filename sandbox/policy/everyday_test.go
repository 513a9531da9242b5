package policy

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

// At most one in fifty everyday commands is refused by lists that are meant to allow
// them. Users turn a list off that refuses more.
func TestEverydayCommandsAreAllowed(t *testing.T) {
	rows := everyday(t)
	refused := 0
	for _, tr := range rows {
		if err := tr.list.Check(tr.cmd, nil); err != nil {
			refused++
			t.Logf("%q is refused: %v", tr.cmd, err)
		}
	}
	t.Logf("%d of %d are refused", refused, len(rows))
	if refused*50 > len(rows) {
		t.Errorf("%d of %d are refused; at most one in fifty may be", refused, len(rows))
	}
}

// everyday reads lines of a list and a command.
func everyday(t testing.TB) (rows []trial) {
	t.Helper()
	f, err := os.Open("testdata/everyday.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		list, cmd, ok := strings.Cut(lines.Text(), "\t")
		if ok && !strings.HasPrefix(list, "#") {
			rows = append(rows, trial{decode(t, cmd), listOf(list)})
		}
	}
	if len(rows) < 200 {
		t.Fatalf("found only %d everyday commands", len(rows))
	}
	return rows
}
