package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestGuidePreset: --guide overrides the file and the environment, other flags override it, and
// messages name it.
func TestGuidePreset(t *testing.T) {
	clean(t)
	t.Chdir(t.TempDir())
	t.Setenv("WARMBOX_CONFIG", writeConfig(t, "network = \"bridge\"\n[exec]\nmemory = \"1g\"\npids = 100\n"))
	t.Setenv("WARMBOX_EXEC_CPU", "1")
	p := &preset{"--guide", guideValues}
	c, err := loadPreset(p, map[string]string{"exec-timeout": "1m"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Exec.Timeout != duration(time.Minute) || c.Exec.Memory != 512<<20 || c.Exec.CPU != 2 || c.Exec.Pids != 100 || c.Network != "none" || c.WorkspaceMode != "ro" || c.Workspace == "" {
		t.Errorf("got %+v, %+v", c.Exec, c.BoxSettings)
	}
	for key := range guideValues {
		if want := "--guide"; c.origin[key] != want && key != "exec.timeout" {
			t.Errorf("%s comes from %q, want %q", key, c.origin[key], want)
		}
	}
	if c.origin["exec.timeout"] != "--exec-timeout" {
		t.Errorf("exec.timeout comes from %q", c.origin["exec.timeout"])
	}
	// Each key is that of a setting, which the help lists.
	if n := strings.Count(guideSettings(), "--"); n != len(guideValues) {
		t.Errorf("the help lists %d settings of %d", n, len(guideValues))
	}
	if _, err := loadPreset(&preset{"--guide", map[string]string{"exec.memory": "1k"}}, nil); err == nil || !strings.HasPrefix(err.Error(), "--guide: ") {
		t.Errorf("a wrong value: %v", err)
	}
}

// TestGuideList: the list of --guide is the guide's.
func TestGuideList(t *testing.T) {
	clean(t)
	t.Chdir(t.TempDir())
	c, err := loadPreset(&preset{"--guide", guideValues}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for cmd, allowed := range map[string]bool{
		"go test ./...": true, "go build": true, "go run .": true, "go mod tidy": true, "npm test": true, "npm run build": true, "npm install": true,
		"node x.js": true, "python x.py": true, "python3 x.py": true, "python -m pytest": true, "pip install x": true, "make": true, "make test": true,
		"make build": true, "cargo build": true, "cargo test": true, "cargo run": true, "ls": true, "cat x": true, "grep x y": true, "find .": true,
		"head x": true, "tail x": true, "wc x": true, "cat x | grep y": true,

		"go vet": false, "go mod download": false, "npm publish": false, "rm -rf /": false, "sh": false, "cd x": false, "echo x": false, "cargo publish": false,
	} {
		if err := c.Lists().Check(cmd, nil); (err == nil) != allowed {
			t.Errorf("%q: %v", cmd, err)
		}
	}
}

// TestJSONTextIsWhole: the parts of the text in JSON are the text, wherever it is cut.
func TestJSONTextIsWhole(t *testing.T) {
	const text = "é世\U0001f600\n\"<a>\" \\ é"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		o, err := newFilterOutput(&out, false, true)
		if err != nil {
			t.Fatal(err)
		}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if err := o.text(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := o.end(); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for d := json.NewDecoder(&out); ; {
			var part struct{ Kind, Text string }
			if err := d.Decode(&part); errors.Is(err, io.EOF) {
				break
			} else if err != nil || part.Kind != "text" || part.Text == "" || strings.ContainsRune(part.Text, utf8.RuneError) {
				t.Fatalf("%+v, %v", part, err)
			}
			got.WriteString(part.Text)
		}
		if diff := cmp.Diff(text, got.String()); diff != "" {
			t.Errorf("in parts of %d bytes:\n%s", size, diff)
		}
	}
}

// TestFilterReadError: a text that cannot be read on is an error, after what was read.
func TestFilterReadError(t *testing.T) {
	var out bytes.Buffer
	o, err := newFilterOutput(&out, false, false)
	if err != nil {
		t.Fatal(err)
	}
	f := &filter{Call: &Call{Stdin: io.MultiReader(strings.NewReader("text <exec"), iotest.ErrReader(errors.New("the disk is gone")))}, out: o}
	if err := f.process(t.Context()); err == nil || err.Error() != "read the text: the disk is gone" || out.String() != "text " {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestFilterWriteError: a filter whose output has no reader ends.
func TestFilterWriteError(t *testing.T) {
	closed, w := io.Pipe()
	closed.CloseWithError(errors.New("nobody reads"))
	f := &filter{Call: &Call{Stdin: strings.NewReader("text")}, out: &textOutput{w: w}}
	if err := f.process(t.Context()); err == nil || err.Error() != "nobody reads" {
		t.Errorf("%v", err)
	}
}
