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

// A Reattacher is a Launcher that finds the boxes again which it was asked to keep.
type Reattacher interface {
	// Detached lists those on this host whose program has ended.
	Detached(ctx context.Context) ([]Detached, error)

	// Reattach returns the stream to one of them, in the place of Launch. It takes
	// the box over: no other program finds it any more while this one lives.
	Reattach(ctx context.Context, k Detached) (io.ReadWriteCloser, error)
}

// A Detacher is a stream that can end without its box. Launch and Redial return
// one for a box that is kept.
type Detacher interface {
	// Detach gives the box up and leaves it as it is, for Redial. Of Detach and
	// Close the first counts.
	Detach() error
}

// A Pinger is a stream that tells whether its carrier answers: the engine, of a relay.
// Nil is also the answer of a stream that has no carrier.
type Pinger interface {
	Ping(ctx context.Context) error
}

// A Placed stream tells where its box ended up.
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
	Shown     []Shown  // what of the host the box has: it ends where it has something else
	Heartbeat bool     // the stream can die without a sign, so that somebody must ask
	Notes     []string // what the user should know: a limit that was clamped, no isolation

	// Covered are the paths in the workspace that commands cannot change, and those
	// above them that they cannot move. Found is what the backend found in it before
	// the box started, nil where it did not look. Neither outlives this program.
	Covered []string        `json:"-"`
	Found   *hostcode.Found `json:"-"`
}

// Spec says what box is wanted. Every field's zero value is the backend's own
// default, and a backend ignores what it has no use for.
type Spec struct {
	Image      string            // e.g. "warmbox/sandbox:slim"
	Env        map[string]string // set for every command of the box
	Network    string            // "none" or "bridge"
	User       string            // "uid:gid"; "" is the workspace's owner, or 1000:1000
	Workspace  string            // a host directory; "" makes one of the box's own
	ReadOnly   bool              // mounts the workspace read-only
	Protect    []string          // what of a writable workspace stays as it is beside what git executes, by paths in it such as ".git/hooks"; "!path" is left out
	Mounts     []Mount           // what else of the host the box sees
	Paths      *hostpath.Guard   // has admitted the workspace and the mounts; nil: they are not judged, and resolved at each launch
	Memory     int64             // bytes; swap is never more
	CPUs       float64           // cores
	Pids       int64             // processes and threads
	Spares     int               // shells that stand ready for commands; 0: none
	Tmp        int64             // bytes of /tmp
	Lease      time.Duration     // how long the agent lives on without a word from its host
	Persistent *Persistent       // not nil for a box that outlives this program

	// Progress is told what a slow launch is doing, one line each time. It is
	// called from one goroutine and must not block. Nil means nobody listens.
	Progress func(string)
}

// Persistent says of a box that is kept what a later program must know to give it back.
type Persistent struct {
	Name            string        // what its owner calls it
	Principal       string        // whose it is, in every program
	ReattachTimeout time.Duration // how long it waits for one
}

// Detached is a box that waits.
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

// An EndedError says that a box ended by itself, and its last words. Stderr is
// the box's own text: bounded, but hostile.
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
		s += "; its last words: " + quoteTail(e.Stderr)
	}
	return s
}
