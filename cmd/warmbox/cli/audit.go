package cli

import (
	"fmt"
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
	w := auditFile{f, log}
	if c.Audit.Format == "line" {
		return slog.New(sandbox.NewAuditLines(w)), nil
	}
	return slog.New(slog.NewJSONHandler(w, nil)), nil
}

// An auditFile logs writes that fail: slog ignores the errors of its writer.
type auditFile struct {
	file *os.File
	log  *slog.Logger
}

func (r auditFile) Write(p []byte) (int, error) {
	n, err := r.file.Write(p)
	if err != nil {
		r.log.Error("cannot write a line to the audit file", "err", err)
	}
	return n, err
}
