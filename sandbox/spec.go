package sandbox

import (
	"context"
	"io"
	"time"

	"github.com/warmbox/warmbox/sandbox/hostcode"
	"github.com/warmbox/warmbox/sandbox/hostpath"
)

// A Launcher starts the agent in a new box and returns the stream to it, over
// which both sides speak the protocol of package wire. It is the only thing
// that a backend must be.
//
// ctx bounds the launch, not the box. Closing the stream ends the agent and
// all that it started and gives back all that Launch took; it is idempotent,
// safe beside Read and Write, and done within seconds. When the box ends by
// itself, Read returns an *EndedError, or io.EOF where nothing more is known.
type Launcher interface {
	Launch(ctx context.Context, id string, spec Spec) (io.ReadWriteCloser, error)
}

// An Isolator is a Launcher that says whether its boxes keep commands away
// from the host. A Launcher that is none does not isolate.
type Isolator interface{ Isolates() bool }

// A Reattacher is a Launcher that can reattach to persistent boxes.
type Reattacher interface {
	// Detached lists the persistent boxes on this host whose program has ended.
	Detached(ctx context.Context) ([]Detached, error)

	// Reattach returns the stream to one of them, in the place of Launch. It claims
	// the box: no other program finds it while this one lives.
	Reattach(ctx context.Context, k Detached) (io.ReadWriteCloser, error)
}

// A Detacher is a stream that can end without its box. Launch and Reattach return
// one for a persistent box.
type Detacher interface {
	// Detach ends the stream and leaves the box as it is, for Reattach. Of Detach and
	// Close the first counts.
	Detach() error
}

// A Pinger is a stream that tells whether its carrier answers: the engine, of a relay.
// Nil is also the answer of a stream that has no carrier.
type Pinger interface {
	Ping(ctx context.Context) error
}

// A Placed stream knows the place of its box.
type Placed interface{ Place() Place }

// Place is what a backend knows about a box that it started.
type Place struct {
	Backend   string   // "docker", "process"
	Image     string   // as the user named it; "" where there are no images
	Path      string   // how the stream comes about: "socket", "relay", "pipe"
	Workspace string   // the workspace on the host, "" where the host has none
	Dir       string   // the directory in which commands start
	Env       []string // what its commands need to know of it: PATH, HOME, TMPDIR
	Memory    int64    // how much memory its processes may have together, in bytes; 0: unknown
	Shown     []Shown  // what of the host the box has: it is ended where it has something else
	Heartbeat bool     // the stream can die without a sign, so the server pings the agent
	Notes     []string // what the user should know: a limit that was clamped, no isolation
	Room      *Room    // the limits of an isolated box; nil: it has none, or they are unknown

	// Covered are the paths in the workspace that commands cannot change, and those
	// above them that they cannot move. Found is what the backend found in it before
	// the box started, nil where it did not scan. Neither outlives this program.
	Covered []string        `json:"-"`
	Found   *hostcode.Found `json:"-"`
}

// KeptBackend is the Backend of a box that another process of ours holds, see package
// keeper: what that says is not the box's text.
const KeptBackend = "keeper"

// KeptGone is the id of the Refused by which that process says that the box is gone. It is
// no run's: those are random.
const KeptGone = "the box is gone."

// Spec says what box is wanted. Every field's zero value is the backend's own
// default, and a backend ignores what it has no use for.
type Spec struct {
	Image         string            // e.g. "warmbox/sandbox:slim"
	Env           map[string]string // set for every command of the box
	Network       string            // "none" or "bridge"
	User          string            // "uid:gid"; "" is the workspace's owner, or 1000:1000
	Workspace     string            // a host directory; "" makes one of the box's own
	ReadOnly      bool              // mounts the workspace read-only
	Protect       []string          // what of a writable workspace commands cannot change besides what git executes, by paths in it such as ".git/hooks"; "!path" is excluded
	Mounts        []Mount           // what else of the host the box sees
	Paths         *hostpath.Guard   // has admitted the workspace and the mounts; nil: they are not checked, and resolved at each launch
	Memory        int64             // bytes; swap is never more
	CPUs          float64           // cores
	Pids          int64             // processes and threads
	Spares        int               // spare shells; 0: none
	Shims         *Shims            // programs with a shim in front of them; nil: none
	Tmp           int64             // bytes of /tmp
	Lease         time.Duration     // silence of the host after which the agent ends
	AuditPrograms bool              // records the programs that commands execute, see Programs

	Persistent *Persistent // not nil for a box that outlives this program

	// Progress receives what a slow launch is doing, one line each time. It is
	// called from one goroutine and must not block. Nil: progress is not reported.
	Progress func(string)
}

// Persistent is what a later program must know of a persistent box to reattach to it.
type Persistent struct {
	Name            string        // what its owner calls it
	Principal       string        // whose it is, in every program
	ReattachTimeout time.Duration // how long the box waits for one
}

// Detached is a persistent box that waits for a server.
type Detached struct {
	ID      string
	Started time.Time
	Persistent
}

// A Mount is a file or directory of the host that a box sees in a place of its
// own. Only the owner's configuration makes one, never a call.
type Mount struct {
	Source   string // on the host, links followed
	Target   string // in the box
	Writable bool
}

// An EndedError says that a box ended by itself, with the last lines of its stderr.
// Stderr is the box's own text: bounded, but hostile.
type EndedError struct {
	ExitCode int
	Memory   bool   // it was killed just after its memory was used up
	Stderr   string // the last 50 lines
}

func (e *EndedError) Error() string {
	s := "the box ended with exit code " + itoa(e.ExitCode)
	if e.Memory {
		s += ": it was killed just after its memory was used up"
	}
	if e.Stderr != "" {
		s += "; the last lines of its stderr: " + quoteTail(e.Stderr)
	}
	return s
}
