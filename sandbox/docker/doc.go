// Package docker starts boxes as containers of a Docker Engine, or of Podman through
// the same API.
//
// It finds an engine, provides the agent to any image without a demand on the image,
// starts a hardened container with the agent as PID 1, and returns the byte stream to
// it. It does not decide which images may run, does not speak the protocol on that
// stream, and creates a container from its own request alone: nothing that an image or
// a client says reaches the engine.
//
// The caller must have checked the image and the workspace against its policy. It must
// close every stream that Launch or Reattach returned, and the Launcher after the last.
//
// The files, in reading order:
//
//	A launch
//	  launcher.go    Launcher, Config: the steps of a launch
//	  plan.go        plan: what a spec means on one engine
//	  workspace.go   workspace: the directory of a box, and the user who owns it
//	  mounts.go      the owner's mounts: what may be mounted where
//	  protect.go     cover: mounts that protect what the host executes in a workspace
//	  mountinfo.go   verify: the kernel's view of those mounts
//	  passwd.go      a name for the box's user
//	  userns.go      idMapping: user ids of boxes that are others on the host
//	  request.go     request: all that a container is created from, and its hardening
//	  seccomp.go     profile: the system calls of a box
//	  notes.go       noteLog: what users are told once
//	A box
//	  box.go         box: a container and the stream to its agent
//	  exit.go        exitMonitor: how a container ended
//	  transport.go   transports: which way to the agent works on an engine
//	  socket_*.go    listener: the box's own socket
//	  relay.go       relay: the stream through an exec of the engine
//	  rawconn.go     rawConn, demultiplexer: streams of the engine
//	Persistent boxes
//	  persistent.go  persistentBox: detach and reattach
//	  boxlock.go     boxLock: which process has a persistent box and its name
//	  bootclock*.go  bootTime: a clock for several processes
//	Images
//	  image.go       pull, and progress
//	  build.go       BuildImage
//	  facts.go       facts: what is learned from an image once
//	  agent.go       agent: where boxes mount the agent from
//	The engine
//	  engine.go      engine: a client, and what the engine says about itself
//	  connector.go   connector: find, connect, reconnect
//	  endpoint.go    endpoint: addresses of engines
//	  watchdog.go    watchdog: pings beside a request, for engines that hang
//	  container.go   create and remove containers also on an engine that hangs
//	  engineinfo.go  Engine, Probe: what doctor reports
//	Several processes on one host
//	  instance.go    instance: how processes know whose containers are left over
//	  boxes.go       BoxInfo, Boxes: the boxes of a host
//	  sweep.go       Sweep: remove what killed processes left
//	  writable.go    what boxes of other processes can write
//	  dirs.go        dirs: state and cache directories
//	  lock.go        lock: a file that shows that its process lives
//	  fileowner_*.go the owner of a directory
package docker
