package warmbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWeeklyRunReachesEveryFlag checks that scripts/test names each flag of a test that
// decides what runs, so that no test is hidden behind a flag which no run sets.
func TestWeeklyRunReachesEveryFlag(t *testing.T) {
	script, err := os.ReadFile("scripts/test")
	if err != nil {
		t.Fatal(err)
	}
	chooseNothing := map[string]bool{
		"update":        true, // rewrites files
		"grammar.cache": true, // makes a run faster
		"program":       true, // names the build that is measured
		"want":          true, // measures calls without an argument
	}
	declared := regexp.MustCompile(`flag\.(?:Bool|Int|Uint64|Duration|String)\("([^"]+)"`)
	found := 0
	err = filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			name := m[1]
			if chooseNothing[name] || strings.HasSuffix(name, "seed") { // a seed is logged, to repeat a run
				continue
			}
			found++
			if !strings.Contains(string(script), "-"+name) {
				t.Errorf("%s declares the flag -%s, which scripts/test does not name", path, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 5 {
		t.Errorf("%d flags found; the pattern no longer matches", found)
	}
}
