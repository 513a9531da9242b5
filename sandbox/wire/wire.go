// Package wire is the protocol between a host and the agent in a box, and this
// file is its specification: an agent could be written in any language from it.
//
// # Stream
//
// Host and agent share one reliable byte stream: a socket, a pipe, the stdio
// of a relay. Both sides send frames over it. A frame is a header of 24 bytes
// and a payload:
//
//	 0      1      2          4               8                          24
//	+------+------+----------+---------------+---------------------------+
//	| 0xB0 | kind | 0 0      | length, BE    | run id                    | payload …
//	+------+------+----------+---------------+---------------------------+
//
// The length counts the payload only. The run id names the run that the frame
// is about and is zero where there is none. It is 16 random bytes that the host
// draws for each run and that travel nowhere but here: a command that does not
// know the id of its run cannot forge a frame of it even if it could write to
// the stream.
//
// Payloads are raw bytes (Stdin, Stdout, Stderr), a big-endian uint32
// (StdinTaken), one uint64 (Resume) or two (Dropped), a JSON object (Hello, Start,
// Kill, Signal, Resize, Look, Started, Exit, Refused, Known, Seen) or nothing. JSON keys are
// those of the structs below; a key that the reader does not know is ignored, so
// each side can learn new ones first.
//
// # Conversation
//
// The first frame of each side is a Hello, the host's first: it admits the
// agent. Each says in it what it can do, and so there are no version numbers.
// From then on
//
//	host → agent   Start        run a command; the id must be new
//	               Stdin        bytes for its standard input
//	               StdinClose   no more of them
//	               Kill         end the run's whole tree
//	               Signal       send a signal to the run's whole tree
//	               Resize       its terminal has another size
//	               Ping         answered by a Pong with the same payload
//	               Resume       go on with a Known run, from that byte of its output on
//	               Forget       nothing more of the run is wanted
//	               Look         say which files are at these places
//	agent → host   Started      the command runs
//	               Refused      it does not, and never will: the run is over
//	               Stdout       bytes that it printed
//	               Stderr
//	               StdinTaken   so many bytes of its input were consumed
//	               Exit         its shell has ended
//	               Closed       its last byte has been sent, its last process is gone: the run is over
//	               Pong
//	               Seen         what a Look found
//	               Known        a run from before this host
//	               Dropped      its output goes on at that byte, what is before it is lost
//
// A run is over with Refused, with Closed, or with an Exit whose "open" is
// false. Where it is true, processes that the command left behind still run:
// Stdout and Stderr go on until Closed, and Kill ends them. After a run is over
// nothing may bear its id again.
//
// Stdin has a window: the host never has more than StdinWindow bytes on the
// way that StdinTaken has not confirmed, so the agent can always take what
// arrives and one command that does not read never stops the others. Output has
// none: the host takes everything at once, and where its disk is slow the
// stream, and with it the commands, wait.
//
// A Start with a "tty" gives the command a terminal of that size for all three
// of its descriptors. It then has input without asking for it, and all that it
// prints is Stdout. A terminal's input does not end: what ends a program's is a
// character, ^D, which is the host's to send like any other, and StdinClose is a
// violation. So is Resize for a run that has no terminal.
//
// A Start with a "shell" runs the command in the named shell: it begins with the
// directory, variables, functions and options that the last command of that name
// ended with. The host starts one of a name only when the last has ended. Each is
// a run like any other all the same, with a shell process of its own: a name is a
// state that is kept between runs, and "shell" in Exit says what became of it. Of
// a run that is forgotten no end is told: one that comes too soon after it is Refused.
//
// A Look names places in the box. The Seen that answers it says which file is at
// each, by device and inode, links followed: so a host learns whether the box has
// what it was meant to have. It counts while no command has run, so a host sends it
// with its Hello, and its Seen follows the agent's Hello and the Knowns behind that.
//
// A host may send Stdin, StdinClose, Kill, Signal and Resize for a run that is
// just ending; the agent ignores those for ids that it does not know. Everything
// else that is out of order, out of range, too long or unknown is a violation, on
// either side: the reader closes the stream. The agent then ends everything that
// it started, and itself.
//
// # Life
//
// The agent ends all of its runs and itself when the stream ends, and when it
// has heard nothing for the lease that the host's Hello gave. A host
// sends a Ping at least every third of the lease where a stream can die
// unnoticed.
//
// # Coming back
//
// An agent whose host's Hello has "keepMillis" outlives its stream by so much:
// end and silence of the stream then end nothing else, and what the host said before
// is carried out. A violation still ends all. In such a box each Start has a
// "tag", the host's own name for the run, for the next host to know it by.
//
// Commands never wait for a host that is not there. The agent keeps the end of
// what they print, some 16 MB of all runs together, whether a host has seen it or
// not: one that dies may not have written down what it was sent. The bytes of a
// run are counted from 0, both streams together, in the order of their frames.
//
// The next host's Hello has "resume": its variables are laid over those from
// before, which it need not know. The agent's has how many "runs" it knows:
// those that are not over, and those that are whose Forget has not come. A Known
// for each follows. The host answers each with a Resume, which says how many bytes
// of output it has, or with a Forget, and starts nothing before. When all are
// answered each resumed run goes on as if this host had started it: with Dropped
// where the agent does not have all the bytes any more, Stdout and Stderr from that
// byte on, Exit, Closed. Exit comes again even where the last host had it, before
// what this one lacks of the output behind it. The window of its input is whole
// again.
//
// A run that is over stays known until its Forget, which the host sends when
// nothing can make it ask again. A Forget for a run that is not over ends it and
// all of its tree, and nothing more is said of it.
//
// Of two hosts the one that came last is served: it has proved to whoever opened
// the stream that the box is its own now.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Kind says what a frame means.
type Kind byte

// The kinds of frames. Those of the host are below 0x40, the agent's above.
const (
	Hello      Kind = 0x01 // the only kind that both sides send
	Start      Kind = 0x02
	Stdin      Kind = 0x03
	StdinClose Kind = 0x04
	Kill       Kind = 0x05
	Ping       Kind = 0x06
	Signal     Kind = 0x07
	Resize     Kind = 0x08
	Resume     Kind = 0x09
	Forget     Kind = 0x0A
	Look       Kind = 0x0B

	Started    Kind = 0x41
	Refused    Kind = 0x42
	Stdout     Kind = 0x43
	Stderr     Kind = 0x44
	StdinTaken Kind = 0x45
	Exit       Kind = 0x46
	Closed     Kind = 0x47
	Pong       Kind = 0x48
	Known      Kind = 0x49
	Dropped    Kind = 0x4A
	Seen       Kind = 0x4B
)

const (
	// HeaderLen is the length of a frame's header.
	HeaderLen = 24

	// MaxPayload bounds every payload but that of Start.
	MaxPayload = 64 << 10

	// MaxStart bounds the payload of Start. A command may have 1 MiB, and JSON
	// makes six bytes of a control character.
	MaxStart = 8 << 20

	// MaxLook bounds the places that one Look names.
	MaxLook = 256

	// MaxRuns bounds the runs that a kept agent knows at once.
	MaxRuns = 1024

	// StdinWindow is how much standard input a run may have on its way.
	StdinWindow = 256 << 10

	magic = 0xB0
)

// ID names a run.
type ID [16]byte

// A Frame is one message. What Payload points to is valid until the next Read.
type Frame struct {
	Kind    Kind
	Run     ID
	Payload []byte
}

// HelloBody is the first word of each side.
type HelloBody struct {
	// Of the host.
	LeaseMillis int64    `json:"leaseMillis,omitempty"` // silence after which the agent gives up; 0: never
	Dir         string   `json:"dir,omitempty"`         // where commands start; "" is the agent's own directory
	Env         []string `json:"env,omitempty"`         // of every run, "NAME=value"
	KeepMillis  int64    `json:"keepMillis,omitempty"`  // how long the agent waits for another host; 0: not at all
	Resume      bool     `json:"resume,omitempty"`      // there was a host before
	Spares      int      `json:"spares,omitempty"`      // shells to start before anybody asks; a few more after many were wanted

	// Of the agent.
	Agent string `json:"agent,omitempty"` // its version, for people
	Pid   int    `json:"pid,omitempty"`   // its pid in its own name space; 1 in a box
	Shell string `json:"shell,omitempty"` // what runs commands, "/bin/bash"
	Runs  int    `json:"runs,omitempty"`  // so many Known follow, at most MaxRuns
}

// StartBody asks for a run.
type StartBody struct {
	Cmd   string   `json:"cmd"`
	Dir   string   `json:"dir,omitempty"` // relative to the Hello's
	Env   []string `json:"env,omitempty"` // over the Hello's
	Stdin bool     `json:"stdin,omitempty"`
	TTY   *Size    `json:"tty,omitempty"`
	Shell string   `json:"shell,omitempty"` // see ShellName
	Tag   string   `json:"tag,omitempty"`   // see TagName; only for a kept agent, and there always
}

// Check refuses what no agent has to carry out.
func (b StartBody) Check() error {
	if b.TTY != nil && !b.TTY.Valid() {
		return Violation("%v with a terminal of %d by %d", Start, b.TTY.Cols, b.TTY.Rows)
	}
	if b.Shell != "" && !ShellName(b.Shell) {
		return Violation("%v in a shell named %.100q", Start, b.Shell)
	}
	if b.Tag != "" && !TagName(b.Tag) {
		return Violation("%v of a run named %.100q", Start, b.Tag)
	}
	return nil
}

// TagName reports whether a run can be called so: 1 to 64 letters, digits, "_" and
// "-" of ASCII.
func TagName(s string) bool { return ShellName(s) && !strings.Contains(s, ".") }

// ShellName reports whether a named shell can be called so: 1 to 64 letters,
// digits, "_", "." and "-" of ASCII, "." not the first. It can be a file's name.
func ShellName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.' && i > 0:
		default:
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// Size is a terminal's, in characters. It is also the payload of Resize.
type Size struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// maxSide bounds a terminal: programs hold a screen of it in memory.
const maxSide = 1000

// Valid reports whether a terminal can have the size.
func (s Size) Valid() bool {
	return s.Cols >= 1 && s.Cols <= maxSide && s.Rows >= 1 && s.Rows <= maxSide
}

// SignalBody asks for a signal to every process of a run.
type SignalBody struct {
	Signal int `json:"signal"` // see Sendable
}

// Sendable reports whether a Signal may bear this number of Linux: HUP, INT,
// QUIT, USR1, USR2 or TERM. For KILL there is Kill, which can also wait for it.
func Sendable(sig int) bool {
	switch sig {
	case 1, 2, 3, 10, 12, 15:
		return true
	}
	return false
}

// KillBody asks for the end of a run's whole tree.
type KillBody struct {
	GraceMillis int64 `json:"graceMillis"` // between SIGTERM and SIGKILL
}

// LookBody asks which files are at places in the box.
type LookBody struct {
	Paths []string `json:"paths"` // absolute, at most MaxLook
}

// SeenBody says which they are.
type SeenBody struct {
	Boot  string     `json:"boot,omitempty"` // of the kernel, from /proc/sys/kernel/random/boot_id; "" where it has none
	Files []SeenFile `json:"files"`          // one for each place, in the order of the Look
}

// SeenFile is what stat says of a place.
type SeenFile struct {
	Dev   uint64 `json:"dev,omitempty"`
	Ino   uint64 `json:"ino,omitempty"`
	Errno int    `json:"errno,omitempty"` // why there is nothing to say, 0 where there is
}

// StartedBody says that a command runs.
type StartedBody struct {
	Pid int `json:"pid"` // in the agent's name space
}

// RefusedBody says at which step a command failed to start, and the kernel's
// reason. It has no text: what a person reads is made by the host.
type RefusedBody struct {
	Step  string `json:"step"`  // one of the Step constants
	Errno int    `json:"errno"` // 0 where the kernel was not asked
}

// The steps of starting a run.
const (
	StepDir   = "dir"   // change to the working directory
	StepPipe  = "pipe"  // make its pipes
	StepTTY   = "tty"   // make its terminal
	StepShell = "shell" // find the named shell, which only bash can be
	StepExec  = "exec"  // start its shell
)

// ExitBody says how a run's shell ended, and what it left behind.
type ExitBody struct {
	Code   int `json:"code"`             // 0 to 255; 128 + Signal where a signal ended it
	Signal int `json:"signal,omitempty"` // 1 to 64

	MemoryKill bool `json:"memoryKill,omitempty"` // the kernel killed a process of the box for want of memory while the shell ran
	Shared     bool `json:"shared,omitempty"`     // of such a run: others had processes meanwhile

	Killed   bool   `json:"killed,omitempty"` // a Kill was carried out, of this run or, where it could not settle, of the whole box
	Open     bool   `json:"open,omitempty"`   // processes of it still run, until Closed
	Leftover []Proc `json:"leftover,omitempty"`
	More     int    `json:"more,omitempty"`  // further leftover processes, not listed
	Shell    string `json:"shell,omitempty"` // of a named shell: one of the Shell constants

	TookMillis int64 `json:"tookMillis,omitempty"` // of a kept agent: how long the shell ran
}

// KnownBody tells of a run what the next host must know.
type KnownBody struct {
	Tag   string `json:"tag"`
	Bytes int64  `json:"bytes"`           // that it has printed so far
	Ended bool   `json:"ended,omitempty"` // an Exit is to come, again or for the first time
	Input bool   `json:"input,omitempty"` // its input is open

	AgeMillis int64 `json:"ageMillis,omitempty"` // since it began; hosts' clocks may be set meanwhile
}

// AppendCounts appends a frame whose payload is numbers: of Resume how many bytes
// of output the host has; of Dropped at which byte the output goes on, and how
// many line feeds were printed before that.
func AppendCounts(buf []byte, kind Kind, run ID, counts ...int64) []byte {
	var payload []byte
	for _, n := range counts {
		payload = binary.BigEndian.AppendUint64(payload, uint64(n))
	}
	return Append(buf, kind, run, payload)
}

// Counts reads the payload that AppendCounts made. No number of it is negative.
func Counts(f Frame, counts ...*int64) error {
	if len(f.Payload) != 8*len(counts) {
		return Violation("%v of %d bytes", f.Kind, len(f.Payload))
	}
	for i, n := range counts {
		if *n = int64(binary.BigEndian.Uint64(f.Payload[8*i:])); *n < 0 {
			return Violation("%v with a number that no count reaches", f.Kind)
		}
	}
	return nil
}

// What became of a named shell with a command.
const (
	ShellSaved = "saved" // it is as the command left it
	ShellKept  = "kept"  // it is as before the command, which did not end by itself
	ShellLost  = "lost"  // what earlier commands left in it is gone
)

// Proc is a process that a run left behind.
type Proc struct {
	Pid  int    `json:"pid"`
	Name string `json:"name"` // at most 64 bytes, hostile
}

// MaxLeftover bounds the list in an ExitBody.
const MaxLeftover = 32

// ErrViolation is what every breach of the protocol wraps.
var ErrViolation = errors.New("protocol violation")

// Violation returns an error that wraps ErrViolation.
func Violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrViolation, fmt.Sprintf(format, args...))
}

// Put writes a frame's header into the first HeaderLen bytes of buf. Output is
// read right behind that place, so that header and payload leave in one write.
func Put(buf []byte, kind Kind, run ID, length int) {
	buf[0], buf[1], buf[2], buf[3] = magic, byte(kind), 0, 0
	binary.BigEndian.PutUint32(buf[4:8], uint32(length))
	copy(buf[8:HeaderLen], run[:])
}

// Append appends a frame to buf.
func Append(buf []byte, kind Kind, run ID, payload []byte) []byte {
	n := len(buf)
	buf = append(buf, make([]byte, HeaderLen)...)
	Put(buf[n:], kind, run, len(payload))
	return append(buf, payload...)
}

// AppendJSON appends a frame with a JSON payload.
func AppendJSON(buf []byte, kind Kind, run ID, body any) ([]byte, error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return buf, err
	}
	if len(payload) > limit(kind) {
		return buf, fmt.Errorf("%v frame of %d bytes is longer than the %d allowed", kind, len(payload), limit(kind))
	}
	return Append(buf, kind, run, payload), nil
}

// Decode reads a JSON payload into body. It is a violation where it is none.
func Decode(f Frame, body any) error {
	if err := json.Unmarshal(f.Payload, body); err != nil {
		return Violation("%v: %v", f.Kind, err)
	}
	return nil
}

// Side says whose frames a Reader reads.
type Side bool

// The two sides.
const (
	FromHost  Side = false
	FromAgent Side = true
)

// A Reader reads frames and refuses what the sender may not send, before it
// takes any memory for it.
type Reader struct {
	r    io.Reader
	side Side
	buf  []byte // unread bytes are buf[pos:end]
	pos  int
	end  int
	big  []byte // a payload too long for buf, a Start's
}

// NewReader returns a Reader of the frames that side sends over r.
func NewReader(r io.Reader, side Side) *Reader {
	// Room for a largest frame and the beginning of the next: with small frames
	// one read brings many, with large ones it brings one.
	return &Reader{r: r, side: side, buf: make([]byte, 2*(HeaderLen+MaxPayload))}
}

// Read returns the next frame. The error is io.EOF at the end between two
// frames, io.ErrUnexpectedEOF within one, wraps ErrViolation where the sender
// broke the protocol, and is the stream's own otherwise.
func (r *Reader) Read() (Frame, error) {
	if err := r.fill(HeaderLen); err != nil {
		return Frame{}, err
	}
	f, length, err := r.header(r.buf[r.pos : r.pos+HeaderLen])
	if err != nil {
		return Frame{}, err
	}
	if HeaderLen+length <= len(r.buf) {
		if err := r.fill(HeaderLen + length); err != nil {
			return Frame{}, unexpected(err)
		}
		f.Payload = r.buf[r.pos+HeaderLen : r.pos+HeaderLen+length]
		r.pos += HeaderLen + length
		return f, nil
	}
	r.pos += HeaderLen
	f.Payload, err = r.long(length)
	return f, err
}

// Buffered returns how many bytes have arrived that Read has not returned yet.
func (r *Reader) Buffered() int { return r.end - r.pos }

// fill makes sure that n bytes are there at pos. n fits the buffer.
func (r *Reader) fill(n int) error {
	if r.pos == r.end {
		r.pos, r.end = 0, 0
	} else if len(r.buf)-r.pos < n {
		r.end = copy(r.buf, r.buf[r.pos:r.end])
		r.pos = 0
	}
	for r.end-r.pos < n {
		m, err := r.r.Read(r.buf[r.end:])
		r.end += m
		if err != nil && r.end-r.pos < n {
			if r.end > r.pos {
				return unexpected(err)
			}
			return err
		}
	}
	return nil
}

// long reads a payload that does not fit the buffer. Its memory grows with what
// arrives, not with what the header claims.
func (r *Reader) long(length int) ([]byte, error) {
	r.big = append(r.big[:0], r.buf[r.pos:min(r.end, r.pos+length)]...)
	r.pos += len(r.big)
	for len(r.big) < length {
		n := min(length-len(r.big), len(r.buf))
		if err := r.fill(n); err != nil {
			return nil, unexpected(err)
		}
		r.big = append(r.big, r.buf[r.pos:r.pos+n]...)
		r.pos += n
	}
	payload := r.big
	if len(r.big) > 4*MaxPayload {
		r.big = nil // a rare giant does not stay
	}
	return payload, nil
}

func (r *Reader) header(h []byte) (Frame, int, error) {
	f := Frame{Kind: Kind(h[1]), Run: ID(h[8:HeaderLen])}
	length := binary.BigEndian.Uint32(h[4:8])
	switch {
	case h[0] != magic || h[2] != 0 || h[3] != 0:
		return f, 0, Violation("not a frame: %x", h[:8])
	case !f.Kind.sentBy(r.side):
		return f, 0, Violation("unexpected kind %#02x", byte(f.Kind))
	case f.Kind.ofRun() == (f.Run == ID{}):
		return f, 0, Violation("%v with run id %x", f.Kind, f.Run)
	case length > uint32(limit(f.Kind)):
		return f, 0, Violation("%v of %d bytes", f.Kind, length)
	}
	return f, int(length), nil
}

func (k Kind) sentBy(s Side) bool {
	if k == Hello {
		return true
	}
	if s == FromAgent {
		return k >= Started && k <= Seen
	}
	return k >= Start && k <= Look
}

// ofRun reports whether frames of this kind are about a run.
func (k Kind) ofRun() bool {
	switch k {
	case Hello, Ping, Pong, Look, Seen:
		return false
	}
	return true
}

func limit(k Kind) int {
	switch k {
	case Start, Hello, Look: // environments and paths
		return MaxStart
	case Ping, Pong:
		return 8
	case StdinTaken:
		return 4
	case Resume:
		return 8
	case Dropped:
		return 16
	case StdinClose, Closed, Forget:
		return 0
	}
	return MaxPayload
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

var kindNames = map[Kind]string{
	Hello: "Hello", Start: "Start", Stdin: "Stdin", StdinClose: "StdinClose", Kill: "Kill", Ping: "Ping", Signal: "Signal", Resize: "Resize",
	Resume: "Resume", Forget: "Forget", Known: "Known", Dropped: "Dropped", Look: "Look", Seen: "Seen",
	Started: "Started", Refused: "Refused", Stdout: "Stdout", Stderr: "Stderr", StdinTaken: "StdinTaken", Exit: "Exit", Closed: "Closed", Pong: "Pong",
}

func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return fmt.Sprintf("kind %#02x", byte(k))
}
