package cli

import (
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/warmbox/warmbox/sandbox"
)

// newAudit opens the audit file, which stays open while the program runs. It returns
// nil if none is configured.
func newAudit(c *Config, log *slog.Logger) (*slog.Logger, error) {
	if c.Audit.File == "" {
		return nil, nil
	}
	f, err := c.private().Append(c.Audit.File)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.origin["audit.file"], err)
	}
	w := &auditFile{file: f, log: log, torn: endsWithinALine(f)}
	if c.Audit.Format == "line" {
		return slog.New(sandbox.NewAuditLines(w)), nil
	}
	return slog.New(slog.NewJSONHandler(w, nil)), nil
}

// An auditFile logs writes that fail: slog ignores the errors of its writer. A line of which
// only a part was written, as on a full disk, is taken back, or the next one begins a line of
// its own. The handler of slog calls Write once at a time, with one line.
type auditFile struct {
	file appendFile
	log  *slog.Logger
	torn bool // the file ends with a part of a line
}

// An appendFile is what of an [os.File] that is open for appending an auditFile uses.
type appendFile interface {
	io.WriteSeeker
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
}

func (r *auditFile) Write(p []byte) (int, error) {
	line := p
	if r.torn {
		line = append([]byte{'\n'}, p...)
	}
	n, err := r.file.Write(line)
	if err == nil {
		r.torn = false
		return len(p), nil
	}
	if n > 0 && !r.takeBack(int64(n)) {
		r.torn = !r.torn || n > 1 // of a torn line, the first byte is the end
	}
	r.log.Error("cannot write a line to the audit file, so it lacks an event: free space on its disk", "err", err, "torn", r.torn)
	return 0, err
}

// endsWithinALine reports whether a file that is open for appending ends with a part of a line, which
// a program left that was ended by force.
func endsWithinALine(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	again, err := os.Open(f.Name())
	if err != nil {
		return false
	}
	defer again.Close()
	last := make([]byte, 1)
	if same, err := again.Stat(); err != nil || !os.SameFile(info, same) {
		return false
	}
	_, err = again.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}

// takeBack removes the n bytes that were written last, and reports whether it did. Another
// program may have appended to the file since, which stays.
func (r *auditFile) takeBack(n int64) bool {
	end, err := r.file.Seek(0, io.SeekCurrent) // appending has moved it to the end
	if err != nil {
		return false
	}
	info, err := r.file.Stat()
	return err == nil && info.Size() == end && r.file.Truncate(end-n) == nil
}
