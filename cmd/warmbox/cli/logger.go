package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"

	"github.com/warmbox/warmbox/sandbox"
)

// openLog sets the call's logger. The returned function closes its file.
func (c *Call) openLog() (func() error, error) {
	out, closeLog := c.Stderr, func() error { return nil }
	if name := c.Config.Log.File; name != "" {
		f, err := c.Config.private().Append(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Config.origin["log.file"], err)
		}
		out, closeLog = f, f.Close
	}
	c.Log = slog.New(traced{logHandler(out, c.Config.Log.Format, c.logLevel())})
	return closeLog, nil
}

// logLevel returns the configured level. By default a command that is used in a
// terminal logs only warnings and errors.
func (c *Call) logLevel() slog.Level {
	var level slog.Level
	level.UnmarshalText([]byte(c.Config.Log.Level)) // checked when the settings were loaded
	if !c.Loud && c.Config.origin["log.level"] == "" {
		level = slog.LevelWarn
	}
	return level
}

func logHandler(out io.Writer, format string, level slog.Level) slog.Handler {
	if format == "json" {
		return slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level})
	}
	noColor := !IsTerminal(out) || os.Getenv("NO_COLOR") != ""
	return tint.NewTextHandler(out, &tint.Options{Level: level, TimeFormat: time.DateTime, NoColor: noColor})
}

// traced adds the id of the call to each line.
type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if id := sandbox.Trace(ctx); id != "" {
		r.AddAttrs(slog.String("trace", id))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }
func (h traced) WithGroup(name string) slog.Handler       { return traced{h.Handler.WithGroup(name)} }

// IsTerminal reports whether a stream is a terminal. It is also true of the null
// device, where this makes no difference: it shows no colours and has no input.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
