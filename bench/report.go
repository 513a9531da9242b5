package bench

import (
	"encoding/json"
	"io"
	"time"
)

// A Report contains all figures. Times are in milliseconds.
type Report struct {
	When       time.Time    `json:"when"`
	Quick      bool         `json:"quick"`
	Facts      []Fact       `json:"facts"`
	Commands   []Group      `json:"commands"` // by command, the time of each way
	Concurrent []Concurrent `json:"atOnce"`
	Starts     []Group      `json:"starts"`
	Bulk       []Flow       `json:"bulk"`
	Memory     []Memory     `json:"memory"`
	Skipped    []string     `json:"leftOut"`
}

// A Fact is a condition of the measurements.
type Fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// A Group is a set of ways that alternated.
type Group struct {
	Name string `json:"name"`
	Base string `json:"base"` // the way that ratios refer to
	Rows []Row  `json:"rows"`
}

// A Row is one way. Its ratio is the median of the ratios of the rounds.
type Row struct {
	Way    string  `json:"way"`
	Rounds int     `json:"rounds"`
	P50    float64 `json:"p50Ms"`
	P95    float64 `json:"p95Ms"`
	Ratio  float64 `json:"ratio"`
}

// Concurrent is a number of callers who each run one command after the other.
type Concurrent struct {
	Way       string  `json:"way"`
	Width     int     `json:"width"`
	PerSecond float64 `json:"perSecond"`
	Ratio     float64 `json:"ratio"` // to as many local callers
}

// A Flow is a measurement of one way to run a command with a large output. The time ends
// when the last byte of the output is in a file.
type Flow struct {
	Way    string  `json:"way"`
	Bytes  int     `json:"bytes"`
	P50    float64 `json:"p50Ms"`
	Rate   float64 `json:"mbPerSecond"`
	Ratio  float64 `json:"ratio"` // of its rate to that of Base
	Base   string  `json:"base"`
	Growth int64   `json:"serverGrowthBytes,omitempty"` // of the server's peak
	Reply  int     `json:"replyBytes,omitempty"`
}

// Memory is the resident memory of a process.
type Memory struct {
	What  string `json:"what"`
	Bytes int64  `json:"bytes"`
	Own   int64  `json:"ownBytes"` // of these, not shared with a file or process
}

// JSON writes the report for programs.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// find returns a way's row.
func (g *Group) find(way string) (Row, bool) {
	for _, r := range g.Rows {
		if r.Way == way {
			return r, true
		}
	}
	return Row{}, false
}

// groupOf converts times to rows, with ratios to the first way.
func groupOf(name string, ways []way, all [][]time.Duration) Group {
	g := Group{Name: name, Base: ways[0].name}
	for i, w := range ways {
		g.Rows = append(g.Rows, Row{
			Way: w.name, Rounds: len(all[i]), Ratio: ratio(all[i], all[0]),
			P50: millis(percentile(all[i], 50)), P95: millis(percentile(all[i], 95)),
		})
	}
	return g
}

func did(all []times) (list [][]time.Duration) {
	for _, t := range all {
		list = append(list, t.did)
	}
	return list
}

func undid(all []times) (list [][]time.Duration) {
	for _, t := range all {
		list = append(list, t.undid)
	}
	return list
}
