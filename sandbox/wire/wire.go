// Package wire is the protocol between a host and the agent in a box, and this
// file is its specification. It is complete: an agent can be written from it in any
// language. The package encodes and checks frames. It opens no stream and keeps no
// state of a conversation: order across frames is checked by the host and the agent.
//
// # Stream
//
// Host and agent share one reliable byte stream: a socket, a pipe, or the stdio of a
// relay. Both sides send frames over it. A frame is a header of 24 bytes and a payload:
//
//	 0      1      2          4               8                          24
//	+------+------+----------+---------------+---------------------------+
//	| 0xB0 | kind | 0 0      | length, BE    | run id                    | payload …
//	+------+------+----------+---------------+---------------------------+
//
// The length counts the payload only. The run id names the run that the frame is about;
// it is zero where there is none. The host draws 16 random bytes for each run and sends
// them nowhere else. A command does not know the id of its run, so it cannot forge a
// frame of it even if it can write to the stream.
//
// Payloads are raw bytes (Stdin, Stdout, Stderr), a big-endian uint32 (StdinTaken) or two
// (OutputTaken), one uint64 (Resume) or two (Dropped), a JSON object (Hello, Start, Kill,
// Signal, Resize, Look, Started, Exit, Refused, Known, Seen, Programs) or empty. The JSON keys are those of the
// structs below. A reader ignores keys that it does not know, so each side can be
// extended first.
//
// # Conversation
//
// The first frame of each side is a Hello; the host's comes first and admits the agent.
// Each Hello says what its side supports, so there are no version numbers. After that:
//
//	host → agent   Start        run a command; the id must be new
//	               Stdin        bytes for its standard input
//	               StdinClose   end of its standard input
//	               Kill         end the run's whole process tree
//	               Signal       send a signal to the run's whole process tree
//	               Resize       change the size of its terminal
//	               Ping         answered by a Pong with the same payload
//	               Resume       continue a Known run, from that byte of its output on
//	               Forget       the host wants nothing more of the run
//	               Look         ask which files are at these paths
//	               OutputTaken  number of output bytes consumed, of a run with a window
//	agent → host   Started      the command runs
//	               Refused      the command was not started and never will be: the run is over
//	               Stdout       bytes that it printed
//	               Stderr
//	               StdinTaken   number of input bytes consumed
//	               Exit         its shell has ended
//	               Closed       its last byte is sent and its last process is gone: the run is over
//	               Pong
//	               Seen         the answer to a Look
//	               Known        a run that an earlier host started
//	               Dropped      output continues at that byte, earlier output is lost
//	               Programs     programs that processes of runs executed
//
// A run is over after Refused, after Closed, or after an Exit whose "open" is false. If
// "open" is true, processes that the command left behind still run: Stdout and Stderr
// continue until Closed, and Kill ends those processes. After a run is over no frame may
// carry its id again.
//
// Stdin has a window: the host never has more than StdinWindow bytes in flight that
// StdinTaken has not confirmed. So the agent can always accept what arrives, and a
// command that does not read never blocks the others. Output has no window: the host
// reads everything at once. If its disk is slow, the stream blocks, and with it the
// commands.
//
// A Start with a "window" bounds that: of each of the run's two streams the agent never has
// more than so many bytes in flight that OutputTaken has not confirmed. So a host that
// hands output on to a slow reader blocks this run alone: its program waits, as it would
// for the reader of a pipe, and neither other runs nor the heartbeat do. An OutputTaken has
// two numbers, for Stdout and for Stderr. A number is how many more bytes of the stream the
// host has consumed, or NoMore: the host wants nothing more of it, and the agent closes its
// end, so that the program is told as by a closed pipe. At least one of them is not 0. The
// output that the run's pipes hold when its shell ends is sent before Exit, as for every
// run. Only for a run that a Kill has ended the agent drops what exceeds the window: a
// killed run ends although the host reads nothing. The window of its input has the same
// size instead of StdinWindow. A run with a window has neither a terminal nor a named
// shell.
//
// A Start with a "tty" gives the command a terminal of that size as all three of its
// descriptors. The command then has input without "stdin", and all that it prints is
// Stdout. A terminal's input does not end: the character ^D ends a program's input, and
// the host sends it like any other. So StdinClose for a run with a terminal is a
// violation, and so is Resize for a run without one.
//
// A Start with a "shell" runs the command in the named shell: it begins with the
// directory, variables, functions and options with which the last command of that name
// ended. The host starts a command of a name only after the last one has ended. Each is
// still a run of its own with its own shell process: a named shell is a state that is
// kept between runs, and "shell" in Exit says what became of it. After a
// Forget the agent does not report the end of the run, so it answers Refused to a Start
// with the name of that run's shell until the run has ended.
//
// A Look names paths in the box. The Seen that answers it gives the file at each path by
// device and inode, with links followed. So the host can check that the box has the files
// that it was meant to have. The answer is only meaningful before the first command, so a
// host sends Look with its Hello. The Seen follows the agent's Hello and any Known
// frames.
//
// A host whose Hello has "auditPrograms" is sent Programs. The agent's Hello says in
// "audited" whether it sees the programs; without "audited" it does not. Each record names
// its run in "run", or none where the agent does not know it. A run's records that exist when
// its shell has ended are sent before its Exit, the others before its Closed. A record may
// name a run that is over, or one that the host has forgotten; that is no violation. The agent
// keeps a bounded number of records for a host that is slow or away, and drops others. Records
// are numbered for each run, dropped ones too, so a host that knows the last number knows how
// many it lacks.
//
// A host whose Hello has "shims" has the agent put shims in front of programs: see Shims. If
// their "records" is set, Programs have a record of each call of a shim. The agent's Hello
// says in "noShims" if it could not make them.
//
// A host may send Stdin, StdinClose, Kill, Signal and Resize for a run that is just
// ending; the agent ignores them for ids that it does not know. Everything else that is
// out of order, out of range, too long or unknown is a violation. The reader of a
// violation closes the stream, on either side. The agent then ends everything that it
// started, and itself.
//
// # Life
//
// The agent ends all of its runs and itself when the stream ends, and when it has
// received nothing for the lease that the host's Hello gave. Where a stream can die
// without a sign, the host sends a Ping at least every third of the lease.
//
// # Reattaching
//
// If the host's Hello has "keepMillis", the box is persistent: the agent outlives its
// stream by that time. The end of the stream, or silence on it, then ends nothing else,
// and the agent still carries out what the host sent before. A violation still ends
// everything. In a persistent box each Start has a "tag", the host's own name for the
// run, by which the next host recognizes it.
//
// Commands never wait while no host is attached. The agent keeps the end of their output,
// about 16 MB for all runs together, whether or not a host has received it: a host that
// dies may not have written down what it received. The bytes of a run are counted from 0,
// both streams together, in the order of their frames.
//
// The next host's Hello has "resume". Its variables are laid over the earlier ones, which
// it need not know. The agent's Hello says how many "runs" it knows: those that are not
// over, and those that are over and not yet forgotten. A Known for each follows. The host
// answers each with a Resume, which says how many bytes of output it has, or with a
// Forget, and starts no run before that. After the last answer each resumed run continues
// as if this host had started it: Dropped if the agent no longer has all the bytes,
// Stdout and Stderr from that byte on, Exit, Closed. Exit is sent again even if the last
// host received it, and before any later output that this host lacks. The window of the
// run's input is whole again.
//
// A run that is over stays known until its Forget. The host sends Forget when it will
// never need the run again. A Forget for a run that is not over ends it with its whole
// process tree, and the agent sends nothing more about it.
//
// A run with a window belongs to its host, also in a persistent box: its bytes are for a
// reader that only this host has. So it has no tag. The agent ends it with its whole
// process tree when the stream ends, keeps nothing of it, and does not report it to the
// next host.
//
// The agent serves the newest of two hosts: whatever opened the stream has proved that
// the box now belongs to it.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
)

// Kind is the type of a frame.
type Kind byte

// The kinds of frames. The host's are below 0x40, the agent's above.
const (
	Hello       Kind = 0x01 // the only kind that both sides send
	Start       Kind = 0x02
	Stdin       Kind = 0x03
	StdinClose  Kind = 0x04
	Kill        Kind = 0x05
	Ping        Kind = 0x06
	Signal      Kind = 0x07
	Resize      Kind = 0x08
	Resume      Kind = 0x09
	Forget      Kind = 0x0A
	Look        Kind = 0x0B
	OutputTaken Kind = 0x0C

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
	Programs   Kind = 0x4C
)

const (
	// HeaderLen is the length of a frame's header.
	HeaderLen = 24

	// MaxPayload bounds every payload except those of Start, Hello and Look.
	MaxPayload = 64 << 10

	// MaxStart bounds the payloads of Start, Hello and Look. A command may have 1 MiB, and JSON
	// makes six bytes of a control character.
	MaxStart = 8 << 20

	// MaxLook bounds the paths in one Look.
	MaxLook = 256

	// MaxRuns bounds the runs that the agent of a persistent box knows at once.
	MaxRuns = 1024

	// MaxPrograms bounds the programs that a Hello asks for.
	MaxPrograms = 64

	// StdinWindow bounds the unconfirmed standard input of a run without a window, in bytes.
	StdinWindow = 256 << 10

	// MinWindow and MaxWindow bound StartBody.Window, in bytes: one frame fits the
	// smallest, and a host can bear the largest.
	MinWindow = MaxPayload
	MaxWindow = 16 << 20

	// NoMore in an OutputTaken says that the host wants nothing more of a stream.
	NoMore = 1<<32 - 1

	magic = 0xB0
)

// ID identifies a run.
type ID [16]byte

// A Frame is one message. A Payload that Read returned is valid until the next Read.
type Frame struct {
	Kind    Kind
	Run     ID
	Payload []byte
}

// HelloBody is the payload of Hello, the first frame of each side.
type HelloBody struct {
	// From the host.
	LeaseMillis   int64    `json:"leaseMillis,omitempty"` // the agent ends after this much silence; 0: never
	Dir           string   `json:"dir,omitempty"`         // working directory of commands; "" is the agent's own
	Env           []string `json:"env,omitempty"`         // variables of every run, "NAME=value"
	PersistMillis int64    `json:"keepMillis,omitempty"`  // how long the agent waits for the next host; 0: the box is not persistent
	Resume        bool     `json:"resume,omitempty"`      // an earlier host was attached
	Programs      []string `json:"programs,omitempty"`    // names to look for in the PATH of runs, at most MaxPrograms
	Spares        int      `json:"spares,omitempty"`      // spare shells to keep ready; the agent adds a few after a burst of commands

	AuditPrograms bool `json:"auditPrograms,omitempty"` // send Programs

	Shims *Shims `json:"shims,omitempty"` // nil: there are none

	// From the agent.
	Agent string `json:"agent,omitempty"` // name of the program, for people
	Pid   int    `json:"pid,omitempty"`   // its pid in its own name space; 1 in a box
	Shell string `json:"shell,omitempty"` // the program that runs commands, "/bin/bash"
	Runs  int    `json:"runs,omitempty"`  // number of Known frames that follow, at most MaxRuns

	Found []string `json:"found,omitempty"` // those of the host's Programs that are in the PATH, in their order

	Audited *AuditedBody `json:"audited,omitempty"` // the answer to AuditPrograms

	NoShims int `json:"noShims,omitempty"` // the errno because of which there are no shims, if the host wants some
}

// AuditedBody says whether the agent sees the programs that processes execute, and if not,
// the step that failed and the kernel's reason. It has no text: the host makes the sentence.
type AuditedBody struct {
	On    bool   `json:"on"`
	Step  string `json:"step,omitempty"`  // one of the Audit constants
	Errno int    `json:"errno,omitempty"` // 0 if no system call failed
}

// The steps of seeing programs.
const (
	AuditLate     = "late"     // an earlier host of the box did not ask for it
	AuditPrivs    = "privs"    // set no_new_privs
	AuditFilter   = "filter"   // install the filter that reports programs
	AuditMemory   = "memory"   // read the memory of processes
	AuditPlatform = "platform" // the processor is not supported
)

// StartBody is the payload of Start.
type StartBody struct {
	Cmd   string   `json:"cmd"`
	Dir   string   `json:"dir,omitempty"` // relative to HelloBody.Dir
	Env   []string `json:"env,omitempty"` // overrides HelloBody.Env
	Stdin bool     `json:"stdin,omitempty"`
	TTY   *Size    `json:"tty,omitempty"`
	Shell string   `json:"shell,omitempty"` // see ShellName
	Tag   string   `json:"tag,omitempty"`   // see TagName; set in a persistent box, and only there

	Window int `json:"window,omitempty"` // of each stream of its output, MinWindow to MaxWindow; 0: none
}

// Check returns a violation if the agent must refuse the request whatever its state.
func (b StartBody) Check() error {
	if b.TTY != nil && !b.TTY.Valid() {
		return Violation("%v with a terminal of %d columns and %d rows, each side must be 1 to %d", Start, b.TTY.Cols, b.TTY.Rows, maxSide)
	}
	if b.Shell != "" && !ShellName(b.Shell) {
		return Violation("%v with an invalid shell name of %d bytes", Start, len(b.Shell))
	}
	if b.Tag != "" && !TagName(b.Tag) {
		return Violation("%v with an invalid tag of %d bytes", Start, len(b.Tag))
	}
	if b.Window == 0 {
		return nil
	}
	if b.Window < MinWindow || b.Window > MaxWindow {
		return Violation("%v with a window of %d bytes, must be %d to %d", Start, b.Window, MinWindow, MaxWindow)
	}
	if b.TTY != nil || b.Shell != "" || b.Tag != "" {
		return Violation("%v with a window, and with a terminal, a named shell or a tag", Start)
	}
	return nil
}

// TagName reports whether s is a valid tag: 1 to 64 ASCII letters, digits, "_" and "-".
func TagName(s string) bool { return ShellName(s) && !strings.Contains(s, ".") }

// ShellName reports whether s is a valid name of a named shell: 1 to 64 ASCII letters,
// digits, "_", "." and "-", where "." is not the first. A valid name is also a valid file
// name.
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

// Size is the size of a terminal in characters. It is also the payload of Resize.
type Size struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// maxSide bounds each side of a terminal: programs hold the whole screen in memory.
const maxSide = 1000

// Valid reports whether a terminal can have this size.
func (s Size) Valid() bool {
	return s.Cols >= 1 && s.Cols <= maxSide && s.Rows >= 1 && s.Rows <= maxSide
}

// SignalBody is the payload of Signal, which goes to every process of a run.
type SignalBody struct {
	Signal int `json:"signal"` // see Sendable
}

// Sendable reports whether a Signal may carry this Linux signal number: HUP, INT, QUIT,
// USR1, USR2 or TERM. For SIGKILL use Kill, whose result the agent reports.
func Sendable(sig int) bool {
	switch sig {
	case 1, 2, 3, 10, 12, 15:
		return true
	}
	return false
}

// KillBody is the payload of Kill, which ends a run's whole process tree.
type KillBody struct {
	GraceMillis int64 `json:"graceMillis"` // between SIGTERM and SIGKILL
}

// LookBody is the payload of Look.
type LookBody struct {
	Paths []string `json:"paths"` // absolute, at most MaxLook
}

// SeenBody is the payload of Seen.
type SeenBody struct {
	Boot  string     `json:"boot,omitempty"` // boot id of the agent's kernel; "" if unknown
	Files []SeenFile `json:"files"`          // one for each path, in the order of the Look
}

// SeenFile is the result of stat for one path.
type SeenFile struct {
	Dev   uint64 `json:"dev,omitempty"`
	Ino   uint64 `json:"ino,omitempty"`
	Errno int    `json:"errno,omitempty"` // why stat failed; 0 if it did not
}

// StartedBody is the payload of Started.
type StartedBody struct {
	Pid int `json:"pid"` // in the agent's name space
}

// RefusedBody gives the step at which a command failed to start, and the kernel's reason.
// It has no text: the host makes the sentence for people.
type RefusedBody struct {
	Step  string `json:"step"`  // one of the Step constants
	Errno int    `json:"errno"` // 0 if no system call failed

	// With StepTold only.
	Code string `json:"code,omitempty"`
	Text string `json:"text,omitempty"`
	Hint string `json:"hint,omitempty"`
}

// The steps of starting a run.
const (
	StepDir   = "dir"   // change to the working directory
	StepPipe  = "pipe"  // make its pipes
	StepTTY   = "tty"   // make its terminal
	StepShell = "shell" // open the named shell, which needs bash
	StepExec  = "exec"  // start its shell

	// StepTold is for a program of the host that speaks the protocol in the place of an
	// agent, and so may have text for people: see package keeper. An agent never sends it.
	StepTold = "told"
)

// ExitBody says how a run's shell ended and which processes it left behind.
type ExitBody struct {
	Code   int `json:"code"`             // 0 to 255; 128 + Signal if a signal ended it
	Signal int `json:"signal,omitempty"` // 1 to 64

	MemoryKill bool `json:"memoryKill,omitempty"` // the kernel killed a process of the box because memory ran out, while the shell ran
	Shared     bool `json:"shared,omitempty"`     // with MemoryKill: other runs had processes at that time

	Killed   bool   `json:"killed,omitempty"` // a Kill ended this run, or the whole box where a tree could not be killed alone
	Open     bool   `json:"open,omitempty"`   // processes of the run still run, until Closed
	Leftover []Proc `json:"leftover,omitempty"`
	More     int    `json:"more,omitempty"`  // number of leftover processes that are not listed
	Shell    string `json:"shell,omitempty"` // with a named shell: one of the Shell constants

	TookMillis int64 `json:"tookMillis,omitempty"` // in a persistent box: how long the shell ran
}

// KnownBody describes a run to the next host.
type KnownBody struct {
	Tag   string `json:"tag"`
	Bytes int64  `json:"bytes"`           // printed so far
	Ended bool   `json:"ended,omitempty"` // its shell has ended; Exit follows, possibly again
	Input bool   `json:"input,omitempty"` // its standard input is open

	AgeMillis int64 `json:"ageMillis,omitempty"` // since it began; an age survives a change of the host's clock
}

// AppendCounts appends a frame whose payload is numbers. For Resume: how many bytes of
// output the host has. For Dropped: the byte at which the output continues, and the
// number of line feeds before it.
func AppendCounts(buf []byte, kind Kind, run ID, counts ...int64) []byte {
	var payload []byte
	for _, n := range counts {
		payload = binary.BigEndian.AppendUint64(payload, uint64(n))
	}
	return Append(buf, kind, run, payload)
}

// Counts decodes a payload of AppendCounts. A negative number is a violation.
func Counts(f Frame, counts ...*int64) error {
	if len(f.Payload) != 8*len(counts) {
		return Violation("%v payload of %d bytes, want %d", f.Kind, len(f.Payload), 8*len(counts))
	}
	for i, n := range counts {
		if *n = int64(binary.BigEndian.Uint64(f.Payload[8*i:])); *n < 0 {
			return Violation("%v with a negative count", f.Kind)
		}
	}
	return nil
}

// AppendTaken appends an OutputTaken: for Stdout and Stderr, how many more bytes are
// consumed, or NoMore.
func AppendTaken(buf []byte, run ID, taken [2]uint32) []byte {
	var payload [8]byte
	binary.BigEndian.PutUint32(payload[:4], taken[0])
	binary.BigEndian.PutUint32(payload[4:], taken[1])
	return Append(buf, OutputTaken, run, payload[:])
}

// Taken decodes an OutputTaken.
func Taken(f Frame) (taken [2]uint32, err error) {
	if len(f.Payload) != 8 {
		return taken, Violation("%v payload of %d bytes, want 8", f.Kind, len(f.Payload))
	}
	taken = [2]uint32{binary.BigEndian.Uint32(f.Payload), binary.BigEndian.Uint32(f.Payload[4:])}
	if taken == [2]uint32{} {
		return taken, Violation("%v of no bytes", f.Kind)
	}
	return taken, nil
}

// What became of a named shell after a command.
const (
	ShellSaved = "saved" // the shell is as the command left it
	ShellKept  = "kept"  // the shell is as before the command, which did not end by itself
	ShellLost  = "lost"  // the state that earlier commands left is gone
)

// Proc is a process that a run left behind.
type Proc struct {
	Pid  int    `json:"pid"`
	Name string `json:"name"` // at most 64 bytes, untrusted
}

// ProgramsBody is the payload of Programs.
type ProgramsBody struct {
	List []Program `json:"list"` // at most MaxProgramList
}

// A Program is a record of a program that a process executed. If "end" is set it says how an
// earlier one ended, and if "total" is set, how many records the run has had. Path and Args
// are what the process gave: untrusted, and what it could still change between the look and
// the use.
type Program struct {
	Seq    int64  `json:"seq"`              // counts from 1 for each run, dropped records included; with "end": the number of the earlier record
	Run    string `json:"run,omitempty"`    // the run's id in hex; "": unknown, such records are numbered together
	Micros int64  `json:"micros"`           // how long before the frame was sent it happened
	Pid    int    `json:"pid"`              // in the agent's name space
	Parent int    `json:"parent,omitempty"` // 0: unknown

	Path   string   `json:"path,omitempty"`
	Args   []string `json:"args,omitempty"`   // the first MaxProgramArgs, the program's name first
	More   int      `json:"more,omitempty"`   // number of arguments that are not listed; -1: unknown
	Cut    bool     `json:"cut,omitempty"`    // Path or one of Args is cut
	Unread bool     `json:"unread,omitempty"` // Path or Args could not be read
	Failed bool     `json:"failed,omitempty"` // the call failed: no program was executed
	Unsure bool     `json:"unsure,omitempty"` // it was not known yet whether the call succeeded; a record with "end" may say it later
	Shim   bool     `json:"shim,omitempty"`   // a call of a shim

	Denied  bool `json:"denied,omitempty"`  // the shim's rules deny the call: no program was executed
	Limited bool `json:"limited,omitempty"` // the shim's limits of output cut what the call printed

	Exit *int `json:"exit,omitempty"` // its exit code, if it has ended by itself and the agent has seen it

	End   bool `json:"end,omitempty"`   // besides Seq and Run, only Micros, Path, Failed, Denied, Limited and Exit are set
	Total bool `json:"total,omitempty"` // only Seq and Run are set
}

// Valid reports whether the numbers of a record are ones that a process can have. The agent
// sends no other, whatever processes tell it.
func (p Program) Valid() bool {
	const maxPid, maxMicros = 1 << 22, 100 * 365 * 24 * 3600 * 1e6 // the kernel's largest pid; a hundred years
	return p.Seq >= 1 && p.Seq <= math.MaxInt64/2 && p.Micros >= 0 && p.Micros <= maxMicros &&
		p.Pid >= 0 && p.Pid <= maxPid && p.Parent >= 0 && p.Parent <= maxPid && p.More >= -1 &&
		(p.Exit == nil || *p.Exit >= 0 && *p.Exit <= 255) && len(p.Args) <= MaxProgramArgs
}

const (
	// MaxProgramArgs bounds the arguments in a Program.
	MaxProgramArgs = 32

	// MaxProgramText bounds each of Path, and Args together, in bytes.
	MaxProgramText = 4 << 10

	// MaxProgramList bounds the records in one Programs.
	MaxProgramList = 1024
)

// MaxLeftover bounds the list in an ExitBody.
const MaxLeftover = 32

// ErrViolation is wrapped by every error about a breach of the protocol.
var ErrViolation = errors.New("protocol violation")

// Violation returns an error that wraps ErrViolation. What the other side sent is untrusted
// and can contain secrets, so of the arguments only numbers and kinds of frames are shown: in
// place of anything else stands hidden.
func Violation(format string, args ...any) error {
	for i, arg := range args {
		switch reflect.ValueOf(arg).Kind() {
		case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
			reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		default:
			args[i] = hidden{}
		}
	}
	return fmt.Errorf("%w: %s", ErrViolation, fmt.Sprintf(format, args...))
}

// hidden stands for an argument of Violation that is not shown, whatever the verb.
type hidden struct{}

// Format implements fmt.Formatter.
func (hidden) Format(s fmt.State, _ rune) { io.WriteString(s, "(not shown)") }

// Put writes a frame's header into the first HeaderLen bytes of buf. The agent reads
// output directly behind it, so that header and payload leave in one write.
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
		return buf, fmt.Errorf("%v payload of %d bytes is longer than the limit of %d", kind, len(payload), limit(kind))
	}
	return Append(buf, kind, run, payload), nil
}

// Decode decodes a JSON payload into body. Invalid JSON is a violation.
func Decode(f Frame, body any) error {
	if err := json.Unmarshal(f.Payload, body); err != nil {
		at, what := int64(len(f.Payload)), "with JSON of a wrong type" // the error's text can quote the payload
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			at = wrong.Offset
		} else if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
			at, what = bad.Offset, "with invalid JSON"
		}
		return Violation("%v "+what+" at byte %d of %d", f.Kind, at, len(f.Payload))
	}
	return nil
}

// Side is the sender whose frames a Reader reads.
type Side bool

// The two sides.
const (
	FromHost  Side = false
	FromAgent Side = true
)

// A Reader reads frames. It refuses what the sender may not send before it allocates
// memory for it.
type Reader struct {
	r    io.Reader
	side Side
	buf  []byte // unread bytes are buf[pos:end]
	pos  int
	end  int
	big  []byte // a payload that does not fit buf
}

// NewReader returns a Reader of the frames that side sends over r.
func NewReader(r io.Reader, side Side) *Reader {
	// Room for a largest frame and the beginning of the next: one read brings many small
	// frames, or one large one.
	return &Reader{r: r, side: side, buf: make([]byte, 2*(HeaderLen+MaxPayload))}
}

// Read returns the next frame. The error is io.EOF at the end of the stream between two
// frames and io.ErrUnexpectedEOF within one. It wraps ErrViolation if the sender broke
// the protocol. Any other error is the stream's own.
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

// Buffered returns the number of bytes that have arrived and that Read has not returned.
func (r *Reader) Buffered() int { return r.end - r.pos }

// fill reads until n bytes are available at pos. n must fit the buffer.
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

// long reads a payload that does not fit the buffer. Its memory grows with the bytes that
// arrive, not with the length that the header claims.
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
		r.big = nil // do not keep the memory of a rare huge payload
	}
	return payload, nil
}

func (r *Reader) header(h []byte) (Frame, int, error) {
	f := Frame{Kind: Kind(h[1]), Run: ID(h[8:HeaderLen])}
	length := binary.BigEndian.Uint32(h[4:8])
	switch {
	case h[0] != magic || h[2] != 0 || h[3] != 0:
		return f, 0, Violation("not a frame: the stream has something else in the place of a header")
	case !f.Kind.sentBy(r.side):
		return f, 0, Violation("unexpected kind %#02x", byte(f.Kind))
	case f.Kind.ofRun() == (f.Run == ID{}):
		return f, 0, Violation("%v and its run id disagree: exactly the frames about a run have one", f.Kind)
	case length > uint32(limit(f.Kind)):
		return f, 0, Violation("%v payload of %d bytes is longer than the limit of %d", f.Kind, length, limit(f.Kind))
	}
	return f, int(length), nil
}

func (k Kind) sentBy(s Side) bool {
	if k == Hello {
		return true
	}
	if s == FromAgent {
		return k >= Started && k <= Programs
	}
	return k >= Start && k <= OutputTaken
}

// ofRun reports whether frames of this kind carry a run id.
func (k Kind) ofRun() bool {
	switch k {
	case Hello, Ping, Pong, Look, Seen, Programs:
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
	case Resume, OutputTaken:
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
	Resume: "Resume", Forget: "Forget", Known: "Known", Dropped: "Dropped", Look: "Look", Seen: "Seen", Programs: "Programs", OutputTaken: "OutputTaken",
	Started: "Started", Refused: "Refused", Stdout: "Stdout", Stderr: "Stderr", StdinTaken: "StdinTaken", Exit: "Exit", Closed: "Closed", Pong: "Pong",
}

func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return fmt.Sprintf("kind %#02x", byte(k))
}
