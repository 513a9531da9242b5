package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLocksExcludeEachOther(t *testing.T) {
	dir := t.TempDir()
	open := func(t *testing.T) *os.File {
		t.Helper()
		path := filepath.Join(dir, strings.ReplaceAll(filepath.Base(t.Name()), ",", "")) // for each case, as files stay open

		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|NoFollow, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	for name, c := range map[string]struct {
		first, second func(*os.File) error
		want          error
	}{
		"exclusive, exclusive": {Try, Try, ErrHeld},
		"exclusive, shared":    {Try, TryShared, ErrHeld},
		"shared, exclusive":    {TryShared, Try, ErrHeld},
		"shared, shared":       {TryShared, TryShared, nil},
	} {
		t.Run(name, func(t *testing.T) {
			holder := open(t)
			if err := c.first(holder); err != nil {
				t.Fatal(err)
			}
			if err := c.second(open(t)); !errors.Is(err, c.want) {
				t.Errorf("while it is held: %v, want %v", err, c.want)
			}
			holder.Close()
			late := open(t)
			if err := Try(late); c.want != nil && err != nil {
				t.Errorf("after its holder closed the file: %v", err)
			}
			late.Close()
		})
	}
}
