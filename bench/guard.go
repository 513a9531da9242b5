package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Ratios are what commands cost through warmbox over stdio, as multiples of a local
// bash -c on the same machine. Times are not stored: they depend on the machine.
type Ratios map[string]float64

// maxRatios bounds what is read of a file.
const maxRatios = 64 << 10

// ReadRatios reads what Write wrote.
func ReadRatios(in io.Reader) (Ratios, error) {
	r := Ratios{}
	lines := bufio.NewScanner(io.LimitReader(in, maxRatios))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		figure, cmd, _ := strings.Cut(line, " ")
		ratio, err := strconv.ParseFloat(figure, 64)
		cmd = strings.TrimSpace(cmd)
		if err != nil || ratio <= 0 || cmd == "" {
			return nil, fmt.Errorf("line %d, %q, is not a ratio and a command", n, line)
		}
		r[cmd] = ratio
	}
	if len(r) == 0 && lines.Err() == nil {
		return nil, errors.New("the file contains no ratio")
	}
	return r, lines.Err()
}

// Write writes ratios below a comment.
func (r Ratios) Write(out io.Writer, comment string) error {
	var text strings.Builder
	for line := range strings.Lines(comment) {
		text.WriteString("# " + line)
	}
	text.WriteByte('\n')
	for _, cmd := range r.commands() {
		fmt.Fprintf(&text, "%.2f  %s\n", r[cmd], cmd)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func (r Ratios) commands() []string {
	var list []string
	for cmd := range r {
		list = append(list, cmd)
	}
	return slices.Sorted(slices.Values(list))
}

// A Verdict compares a command's ratio with the stored one.
type Verdict struct {
	Command       string
	Stored, Ratio float64
	Within        bool // the margin
}

// tries is how often a ratio is measured before it counts as too high: other load on
// the machine makes some ratios too high and none too low.
const tries = 3

// Guard measures the commands of stored, each until it is within the margin or has been
// measured three times. The best ratio counts. A margin of 0.5 allows half as much
// again.
func (b *Bench) Guard(ctx context.Context, stored Ratios, margin float64) (list []Verdict, err error) {
	best, err := b.ratios(ctx, stored.commands(), func(cmd string, ratio float64) bool { return ratio <= stored[cmd]*(1+margin) })
	for _, cmd := range stored.commands() {
		list = append(list, Verdict{cmd, stored[cmd], best[cmd], best[cmd] <= stored[cmd]*(1+margin)})
	}
	return list, err
}

// Ratios measures the commands of the Bench, three times each, and returns the
// best.
func (b *Bench) Ratios(ctx context.Context) (Ratios, error) {
	return b.ratios(ctx, b.commands(), func(string, float64) bool { return false })
}

func (b *Bench) ratios(ctx context.Context, commands []string, enough func(string, float64) bool) (best Ratios, err error) {
	d, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	best = Ratios{}
	for _, cmd := range commands {
		for try := range tries {
			d.progress.step(fmt.Sprintf("%s, %d of at most %d", cmd, try+1, tries))
			all, err := interleave(ctx, d.light(cmd), d.plan.light)
			if err != nil {
				return nil, err
			}
			r := ratio(all[1].did, all[0].did)
			if try == 0 || r < best[cmd] {
				best[cmd] = r
			}
			if enough(cmd, best[cmd]) {
				break
			}
		}
	}
	return best, nil
}
