package cli

import (
	"fmt"
	"log/slog"
	"os"
)

// newAudit opens the record of what was done, nil where none is wanted. It stays
// open as long as the program runs.
func newAudit(c *Config, log *slog.Logger) (*slog.Logger, error) {
	if c.AuditFile == "" {
		return nil, nil
	}
	f, err := c.private().Append(c.AuditFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.origin["audit_file"], err)
	}
	return slog.New(slog.NewJSONHandler(record{f, log}, nil)), nil
}

// A record is a file whose failures somebody hears of: slog tells nobody.
type record struct {
	file *os.File
	log  *slog.Logger
}

func (r record) Write(p []byte) (int, error) {
	n, err := r.file.Write(p)
	if err != nil {
		r.log.Error("the record of what was done lacks a line", "err", err)
	}
	return n, err
}
