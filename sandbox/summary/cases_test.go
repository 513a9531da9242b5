package summary

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A logCase is a real command's output with what a reader must learn from it.
type logCase struct {
	name   string
	family string
	cmd    string
	exit   int
	output []byte
	facts  []fact
}

type fact struct {
	Fact   string   `json:"fact"`
	Weight float64  `json:"weight"`
	AnyOf  []string `json:"any_of"`
}

// loadCases reads the folders of testdata/set.
func loadCases(t testing.TB, set string) (cases []logCase) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("testdata", set, "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no cases in testdata/%s: %v", set, err)
	}
	for _, dir := range dirs {
		c := logCase{name: filepath.Base(dir), output: readOutput(t, dir)}
		c.family, c.cmd = readWord(t, dir, "family"), readWord(t, dir, "cmd")
		if c.exit, err = strconv.Atoi(readWord(t, dir, "exit")); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(readWord(t, dir, "facts.json")), &c.facts); err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		cases = append(cases, c)
	}
	return cases
}

func readWord(t testing.TB, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func readOutput(t testing.TB, dir string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "output"))
	if !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	file, err := os.Open(filepath.Join(dir, "output.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = io.ReadAll(unzip); err != nil {
		t.Fatal(err)
	}
	return raw
}

func (c logCase) summarize(budget int) string {
	s := New(Options{Cmd: c.cmd, Budget: budget})
	s.Write(c.output)
	return s.Summary(Exit{Code: c.exit})
}

// greenClaim matches a claim of success. A summary of a failed run must not make one
// that is not in the output.
var greenClaim = regexp.MustCompile(`(?i)\b(no (?:errors?|issues?|problems?|failures?)(?: found)?|all (?:tests )?(?:passed|good|green)|succe(?:ss|eded)(?:ful(?:ly)?)?|0 (?:errors|failed|failures))\b`)

// score returns the weight of the facts in a summary, and of all facts.
func (c logCase) score(t *testing.T, text string) (got, all float64) {
	for _, f := range c.facts {
		all += f.Weight
		hit := false
		for _, pattern := range f.AnyOf {
			hit = hit || regexp.MustCompile(pattern).MatchString(text)
		}
		if hit {
			got += f.Weight
		} else {
			t.Logf("%s: missing %s", c.name, f.Fact)
		}
	}
	if claim := greenClaim.FindString(text); c.exit != 0 && claim != "" && !bytes.Contains(bytes.ToLower(c.output), []byte(strings.ToLower(claim))) {
		t.Errorf("%s: claims %q", c.name, claim)
		return 0, all
	}
	return got, all
}

// Summaries of real outputs contain the important facts. The floors are slightly below
// the current scores, and are raised with them.
func TestSummariesContainImportantFacts(t *testing.T) {
	for set, floor := range map[string]struct {
		family float64
		total  float64
	}{
		"dev": {family: 0.90, total: 0.98},
		"own": {family: 0.90, total: 0.98},
		// Tools that came later than the first rules.
		"dev2": {family: 0.75, total: 0.97},
		// Tools for which there were few or no rules.
		"later": {family: 0.70, total: 0.95},
	} {
		t.Run(set, func(t *testing.T) {
			type sum struct{ got, all float64 }
			families, total := map[string]sum{}, sum{}
			for _, c := range loadCases(t, set) {
				got, all := c.score(t, c.summarize(0))
				if got == 0 {
					t.Errorf("%s: the summary has none of its facts", c.name)
				}
				f := families[c.family]
				families[c.family] = sum{f.got + got/all, f.all + 1}
				total.got, total.all = total.got+got/all, total.all+1
			}
			for name, f := range families {
				if f.got/f.all < floor.family {
					t.Errorf("%s: %.1f %% of the facts", name, 100*f.got/f.all)
				}
			}
			t.Logf("%.1f %% of the facts of %v cases", 100*total.got/total.all, total.all)
			if total.got/total.all < floor.total {
				t.Errorf("below %.1f %%", 100*floor.total)
			}
		})
	}
}
