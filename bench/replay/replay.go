// Package replay measures what a model learns from warmbox's replies. It plays recorded
// steps of real work through the real program and asks of each: are the facts that the
// next step needs in the first reply, how many calls does it take to see them, and how
// much has to be read until then?
//
// It does not judge how well a reply reads, and it needs none of the recorded tools: bash
// reads a file before the command, which plays the recording in its place. The caller
// must have [Player] run when the environment says so.
package replay

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// A Step is a call, with what its command printed when it was recorded.
type Step struct {
	Name string `json:"-"` // of its directory

	Cmd    string     // that was recorded, and is sent
	Wants  string     // what the next step needs, in words
	Args   Args       // of exec, besides cmd
	Then   *Call      // the call to measure; nil: exec itself
	Facts  [][]string // each a regular expression, with its alternatives
	Exit   int        // the recorded exit code
	facts  [][]*regexp.Regexp
	output string // the file with the recording
}

// Args are the arguments of a call. The text $execId stands for the id of the step's run.
type Args map[string]any

// A Call is a call of a tool.
type Call struct {
	Tool string
	Args Args
}

// Load reads the steps below a directory, in the order of their names.
func Load(dir string) ([]*Step, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "step.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	steps := make([]*Step, len(paths))
	for i, path := range paths {
		if steps[i], err = load(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return steps, nil
}

func load(path string) (*Step, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	s := &Step{Name: filepath.Base(dir), output: filepath.Join(dir, "output")}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(s); err != nil {
		return nil, err
	}
	for _, alternatives := range s.Facts {
		var fact []*regexp.Regexp
		for _, a := range alternatives {
			re, err := regexp.Compile(a)
			if err != nil {
				return nil, err
			}
			fact = append(fact, re)
		}
		s.facts = append(s.facts, fact)
	}
	return s, nil
}

// Missing returns the facts that no text shows.
func (s *Step) Missing(shown string) (missing []string) {
	for i, fact := range s.facts {
		if !slices.ContainsFunc(fact, func(re *regexp.Regexp) bool { return re.MatchString(shown) }) {
			missing = append(missing, s.Facts[i][0])
		}
	}
	return missing
}

// readMaybeGzip reads a file, or the file of that name with .gz.
func readMaybeGzip(path string) ([]byte, error) {
	if text, err := os.ReadFile(path); !os.IsNotExist(err) {
		return text, err
	}
	f, err := os.Open(path + ".gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(z)
	return text, cmp.Or(err, z.Close())
}
