package cli

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox/keeper"
)

// What two records have of one value is not the same text, and is the hash of neither.
func TestBirthHashesVariablesWithAKeyOfItsOwn(t *testing.T) {
	settings := map[string]string{"image": "slim", keeper.Variable + "TOK": "hash"}
	one, two := newBirth("b-one", settings), newBirth("b-two", settings)
	a, b := one.Settings[keeper.Variable+"TOK"], two.Settings[keeper.Variable+"TOK"]
	if a == b || a == "hash" || one.Settings["image"] != "slim" {
		t.Errorf("%v, %v", one, two)
	}
	if what := keeper.Differences(one.Settings, one.sealed(settings)); what != "" {
		t.Error(what)
	}
	settings[keeper.Variable+"TOK"] = "other"
	if what := keeper.Differences(one.Settings, one.sealed(settings)); what != "the value of the variable TOK" {
		t.Errorf("%q", what)
	}
}

// A record goes with its box, unless a keeper has the record's lock.
func TestSweepRemovesRecordsOfBoxesThatAreGone(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	c := &Call{Config: &Config{}, Log: slog.New(slog.DiscardHandler), Stdout: io.Discard}
	dir, err := keepersDir()
	if err != nil {
		t.Fatal(err)
	}
	locks := filepath.Join(state, "warmbox", "boxes", "kept", "engine")
	for _, d := range []string{dir, locks} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const there, gone = "b-aaaaaaaaaa", "b-cccccccccc"
	if err := os.WriteFile(filepath.Join(locks, there+".lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, box := range map[string]string{"there": there, "gone": gone, "held": gone} {
		text, _ := json.Marshal(newBirth(box, nil))
		if err := os.WriteFile(filepath.Join(dir, name+recordSuffix), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	door, err := keeper.Acquire(t.Context(), filepath.Join(dir, "held"))
	if err != nil {
		t.Fatal(err)
	}
	defer door.Release()
	if err := c.sweepRecords(); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"+recordSuffix))
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if got := strings.Join(left, " "); got != "held.json there.json" {
		t.Errorf("left: %s", got)
	}
}
