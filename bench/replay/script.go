package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxCalls is when the script stops.
	maxCalls = 40

	// waitSeconds is what the hints and the tool list name for a wait.
	waitSeconds = 45

	// bytesPerToken is the usual rule of thumb, as in package bench.
	bytesPerToken = 4
)

// A Reading is what it took to see a step's facts in one form.
type Reading struct {
	Step   *Step
	First  int      // bytes of the first reply
	Bytes  int      // of all replies
	Calls  int      // 1, and those that were necessary after it
	Absent []string // facts that the first reply does not show
	Never  []string // facts that no reply shows
}

// Replay plays steps through a program, and reads its replies in one form. If want is true and
// the program's exec has an argument of that name, it is told in words what each step wants.
func Replay(program string, form Form, want bool, steps []*Step) (list []Reading, err error) {
	s, err := open(program, form, want)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := s.close(); err == nil {
			err = closed
		}
	}()
	for _, step := range steps {
		r, err := s.read(step)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.Name, err)
		}
		list = append(list, r)
	}
	return list, nil
}

// read plays one step, and ends what still runs of it.
func (s *session) read(step *Step) (Reading, error) {
	execID, reply, err := s.first(step)
	if err != nil {
		return Reading{}, err
	}
	r := Reading{Step: step, First: reply.Bytes, Bytes: reply.Bytes, Calls: 1}
	shown := reply.Shown
	r.Absent = step.Missing(shown)
	r.Never = r.Absent
	f := follower{execID: execID}
	for len(r.Never) > 0 && r.Calls < maxCalls {
		args := f.next(reply)
		if args == nil {
			break
		}
		if reply, err = s.call("logs", args); err != nil {
			return r, err
		}
		r.Calls++
		r.Bytes += reply.Bytes
		shown += "\n" + reply.Shown
		r.Never = step.Missing(shown)
	}
	_, err = s.call("stop", Args{"execId": execID})
	return r, err
}

// first returns the reply that is measured, and the id of the step's run.
func (s *session) first(step *Step) (execID string, reply Reply, err error) {
	args, err := step.played(s.bashEnv)
	if err != nil {
		return "", Reply{}, err
	}
	if s.want {
		args["want"] = step.Wants
	}
	reply, err = s.call("exec", args)
	if err == nil && reply.execID == "" {
		err = fmt.Errorf("the reply of exec has no execId: %.1000s", reply.Shown)
	}
	execID = reply.execID
	if err != nil || step.Then == nil {
		return execID, reply, err
	}
	then := maps.Clone(step.Then.Args)
	for name, value := range then {
		if text, ok := value.(string); ok {
			then[name] = strings.ReplaceAll(text, "$execId", execID)
		}
	}
	reply, err = s.call(step.Then.Tool, then)
	return execID, reply, err
}

// A follower decides what a careful model calls next: what a reply names, else the lines
// that were left out, else what a running command prints next. It knows no more than the
// replies say.
type follower struct {
	execID string
	asked  []string // calls made, as JSON
	paging bool     // from a line on, not the end of the log
	page   int      // the line after those of the last page
}

// next returns the arguments of the next call of logs, nil if there is nothing to call.
func (f *follower) next(r Reply) Args {
	if r.next > 0 {
		f.page = r.next
	}
	if args := f.named(r.Shown); args != nil {
		f.paging = f.paging || args["fromLine"] != nil
		return args
	}
	switch {
	case r.running:
		f.paging = f.paging || f.page <= 1
		return Args{"execId": f.execID, "fromLine": max(f.page, 1), "waitSeconds": waitSeconds}
	case !f.paging && (r.truncated || r.cut):
		f.paging = true
		return Args{"execId": f.execID, "fromLine": 1}
	case r.lines && r.next > 0:
		return Args{"execId": f.execID, "fromLine": f.page}
	}
	return nil
}

var namedCall = regexp.MustCompile(`logs (\{[^{}]*\})`)

// named returns the first call of logs for this run that a reply names and that has not
// been made.
func (f *follower) named(shown string) Args {
	for _, m := range namedCall.FindAllStringSubmatch(shown, -1) {
		var args Args
		if json.Unmarshal([]byte(m[1]), &args) != nil || args["execId"] != f.execID || slices.Contains(f.asked, m[1]) {
			continue
		}
		f.asked = append(f.asked, m[1])
		return args
	}
	return nil
}

// Figures sum up the readings of one form.
type Figures struct {
	Steps      int
	Sufficient int // steps whose facts are all in the first reply
	Calls      int
	Tokens     int // of all replies until every fact was shown
	Never      int // steps with a fact that no reply shows
}

// Sum returns the figures of a list of readings.
func Sum(list []Reading) (f Figures) {
	bytes := 0
	for _, r := range list {
		f.Steps++
		f.Calls += r.Calls
		bytes += r.Bytes
		if len(r.Absent) == 0 {
			f.Sufficient++
		}
		if len(r.Never) > 0 {
			f.Never++
		}
	}
	f.Tokens = bytes / bytesPerToken
	return f
}

// figuresFormat is how figures are written and read.
const figuresFormat = "steps %d sufficient %d calls %d tokens %d never %d"

func (f Figures) String() string {
	return fmt.Sprintf(figuresFormat, f.Steps, f.Sufficient, f.Calls, f.Tokens, f.Never)
}
