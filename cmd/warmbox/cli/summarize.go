package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/warmbox/warmbox/sandbox/redact"
	"github.com/warmbox/warmbox/sandbox/summary"
)

// bytesPerToken converts a budget in tokens to bytes.
const bytesPerToken = 4

func summarizeCommand() Command {
	return Command{
		Name: "summarize", Bare: true,
		Short: "reads a command's output and prints the built-in summary of it",
		Long: "Reads a command's output from standard input and prints the built-in summary of it. The environment says how\n" +
			"the command ended:\n\n" +
			"  WARMBOX_EXIT_CODE  its exit code (default 0)\n" +
			"  WARMBOX_CMD        its command line\n" +
			"  WARMBOX_WANT       what you look for: words, paths, names; lines with them rank first\n" +
			"  WARMBOX_BUDGET     maximum size of the summary, in tokens of four bytes (default 200)\n\n" +
			"  make >log 2>&1; WARMBOX_EXIT_CODE=$? warmbox summarize <log",
		Run: func(_ context.Context, c *Call) error {
			code, err := numberFrom("WARMBOX_EXIT_CODE")
			if err != nil {
				return err
			}
			budget, err := numberFrom("WARMBOX_BUDGET")
			if err != nil {
				return err
			}
			s := summary.New(summary.Options{Cmd: os.Getenv("WARMBOX_CMD"), Want: os.Getenv("WARMBOX_WANT"), Budget: budget * bytesPerToken, Mask: new(redact.Redactor).Text})
			if _, err := io.Copy(s, c.Stdin); err != nil {
				return fmt.Errorf("read the output: %w", err)
			}
			_, err = fmt.Fprintln(c.Stdout, s.Summary(summary.Exit{Code: code}))
			return err
		},
	}
}

// numberFrom reads a number from the environment; 0 if it is not set.
func numberFrom(name string) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, Usagef("%s=%q is not a number; use only digits", name, text)
	}
	return n, nil
}
