package rawlog

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// TestRecordsAreBoundedAndDeletedWithTheLog: records are kept up to a bound, over a restart,
// and as long as the log.
func TestRecordsAreBoundedAndDeletedWithTheLog(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	s.Create(Meta{Exec: "e-1"}).Close()
	if _, err := s.OpenRecords("e-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("records before the first: %v", err)
	}
	line := []byte(strings.Repeat("x", 1<<20-1) + "\n")
	want, lost := 0, int64(0)
	for range 2 { // of a program and the next one
		r := s.Records("e-1")
		for range 12 {
			if r.Append(line, false) {
				want += len(line)
			}
		}
		r.Close()
		lost += r.Lost()
	}
	r := s.Records("e-1")
	if r.Append(line, false) || !r.Append([]byte("end\n"), true) || r.Lost() != 1 {
		t.Error("the last part of the file is for what was lost")
	}
	r.Close()
	f, err := s.OpenRecords("e-1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(f)
	f.Close()
	if lost != 24-15 || len(got) != want+4 || want != 15<<20 || !bytes.HasSuffix(got, []byte("\nend\n")) || err != nil {
		t.Errorf("%d bytes, want %d, %d lost, %v", len(got), want+4, lost, err)
	}
	if list, _ := s.List(); len(list) != 1 || list[0].Size < int64(want) {
		t.Errorf("%+v", list)
	}
	if err := s.remove("e-1"); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(s.Dir); len(left) != 0 {
		t.Errorf("%v", left)
	}
	for _, bad := range []string{"", "../e-1", "a/b"} {
		if s.Records(bad).Append([]byte("x"), false) {
			t.Errorf("%q has records", bad)
		}
	}
}
