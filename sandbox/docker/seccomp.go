package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
)

// EngineSeccomp as Config.SeccompProfile selects the engine's default profile for
// containers.
const EngineSeccomp = "engine"

// A profile says which system calls a box may make, in the format that engines read.
// A call without a rule fails with EPERM, or with ENOSYS where it is newer than all
// calls named here: runc does that, since programs try new calls and fall back.
//
// Our profile is for commands of a developer, without a capability. It is narrower
// than the engine's where a call exposes much of the kernel and few programs need it,
// and wider in what debuggers and sanitizers do to their own processes.
type profile struct {
	DefaultAction string        `json:"defaultAction"`
	ArchMap       []profileArch `json:"archMap"`
	Syscalls      []profileRule `json:"syscalls"`
}

// A profileArch lists no subarchitectures in our profile: the 32-bit calls for sockets
// are one number, socketcall, whose arguments a filter cannot see.
type profileArch struct {
	Architecture     string   `json:"architecture"`
	SubArchitectures []string `json:"subArchitectures"`
}

type profileRule struct {
	Names    []string       `json:"names"`
	Action   string         `json:"action"`
	ErrnoRet int            `json:"errnoRet,omitempty"`
	Args     []profileArg   `json:"args,omitempty"`
	Includes *profileFilter `json:"includes,omitempty"`
}

// A profileArg is a condition on one argument. All conditions of a rule must hold, so
// alternatives are separate rules.
type profileArg struct {
	Index    int    `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

type profileFilter struct {
	MinKernel string `json:"minKernel"`
}

// is matches an argument of exactly that value. It compares 64 bits where the kernel
// uses 32, so it can only refuse too much.
func is(index int, value uint64) profileArg {
	return profileArg{Index: index, Value: value, Op: "SCMP_CMP_EQ"}
}

// masked matches an argument whose bits in mask are value.
func masked(index int, mask, value uint64) profileArg {
	return profileArg{Index: index, Value: mask, ValueTwo: value, Op: "SCMP_CMP_MASKED_EQ"}
}

func allow(call string, args ...profileArg) profileRule {
	return profileRule{Names: []string{call}, Action: "SCMP_ACT_ALLOW", Args: args}
}

// ourProfile returns the profile of boxes.
func ourProfile() profile {
	rules := []profileRule{
		{Names: allowedCalls(), Action: "SCMP_ACT_ALLOW"},
		{Names: strings.Fields(tracing), Action: "SCMP_ACT_ALLOW", Includes: &profileFilter{MinKernel: safeTracing}},
		allow("clone", masked(0, newNamespaces, 0)),
		// Its flags are in memory, which a filter cannot read. libc falls back to clone.
		{Names: []string{"clone3"}, Action: "SCMP_ACT_ERRNO", ErrnoRet: enosys},
		// A process may set its own limits, and read those of any. The kernel would let
		// it set the limits of all processes of its user, the agent's included.
		allow("prlimit64", is(0, ownPid)),
		allow("prlimit64", is(2, readOnly)),
	}
	setsXattr := strings.Fields(settingXattr)
	rules = append(rules,
		profileRule{Names: setsXattr, Action: "SCMP_ACT_ALLOW", Args: []profileArg{{Index: xattrSize, Value: maxXattr, Op: "SCMP_CMP_LE"}}},
		profileRule{Names: setsXattr, Action: "SCMP_ACT_ERRNO", ErrnoRet: e2big, Args: []profileArg{{Index: xattrSize, Value: maxXattr, Op: "SCMP_CMP_GT"}}},
	)
	for _, persona := range []uint64{0, noRandomAddresses, askPersonality} {
		rules = append(rules, allow("personality", is(0, persona)))
	}
	return profile{
		DefaultAction: "SCMP_ACT_ERRNO",
		ArchMap:       []profileArch{{"SCMP_ARCH_X86_64", []string{}}, {"SCMP_ARCH_AARCH64", []string{}}},
		Syscalls:      append(rules, socketRules()...),
	}
}

const (
	e2big  = 7
	enosys = 38

	ownPid   = 0
	readOnly = 0 // no new limit is given

	// settingXattr sets extended attributes, which include access control lists. The
	// kernel charges the memory of a list to no cgroup: it takes up to 128 KB of the
	// machine's memory for each file, and twice that for a directory, as long as a file
	// of a tmpfs exists. A filter sees the size of a value and not its name. With this
	// limit a list has 124 entries and takes 1 KB, about as much as the file itself
	// takes of the box's memory.
	settingXattr = `setxattr lsetxattr fsetxattr`
	xattrSize    = 3 // the index of the argument
	maxXattr     = 996

	// newNamespaces are clone's flags for all kinds of name spaces. In a user name
	// space a command would have every capability, and with it code in the kernel that
	// only root can reach.
	newNamespaces = 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000

	// noRandomAddresses is set by debuggers, and by the race detector where it does not
	// get the addresses that it needs.
	noRandomAddresses = 0x0040000
	askPersonality    = 0xffffffff // changes nothing

	// tracing is for gdb, strace and the leak sanitizer; each of the calls has the power
	// of all. It is safe here: the agent cannot be traced, and each run is in a Landlock
	// domain of its own, whose processes can trace none outside.
	tracing = `ptrace process_vm_readv process_vm_writev`

	// safeTracing is the first kernel in which a tracer cannot change a call after the
	// filter has checked it.
	safeTracing = "4.8"
)

// allowedCalls lists what a box may call with any arguments. Missing, apart from what
// needs a capability anyway: io_uring and the older kernel-side I/O, bpf,
// perf_event_open, userfaultfd, keys, file handles, all that mounts or creates name
// spaces, quotas, message queues of POSIX, NUMA policy, vmsplice, modify_ldt,
// pidfd_getfd. Most recent escapes from a container to the kernel began with one of
// these.
func allowedCalls() []string {
	return strings.Fields(strings.Join([]string{
		// Files by name.
		`access chdir chmod chown creat faccessat faccessat2 fchdir fchmodat fchmodat2 fchownat futimesat getcwd
		lchown link linkat lstat mkdir mkdirat mknod mknodat newfstatat open openat openat2 readlink readlinkat
		rename renameat renameat2 rmdir stat statfs statx symlink symlinkat truncate umask unlink unlinkat utime
		utimensat utimes`,
		`getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr`,
		`inotify_add_watch inotify_init inotify_init1 inotify_rm_watch`,
		// Open files.
		`cachestat close close_range copy_file_range dup dup2 dup3 fadvise64 fallocate fchmod fchown fcntl fdatasync
		flock fstat fstatfs fsync ftruncate getdents getdents64 ioctl lseek pread64 preadv preadv2 pwrite64 pwritev
		pwritev2 read readahead readv sendfile splice sync sync_file_range syncfs tee write writev`,
		`epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 pipe pipe2 poll
		ppoll pselect6 select signalfd signalfd4 timerfd_create timerfd_gettime timerfd_settime`,
		// Sockets that exist: socketRules says which can be created.
		`accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg
		sendmsg sendto setsockopt shutdown`,
		// Memory.
		`brk madvise map_shadow_stack membarrier memfd_create mincore mlock mlock2 mlockall mmap mprotect mremap
		mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect`,
		`msgctl msgget msgrcv msgsnd semctl semget semop semtimedop shmat shmctl shmdt shmget`,
		// Processes and threads. The change of users is for the engine, which
		// starts the agent under this profile; commands lack the capability.
		`arch_prctl capget capset execve execveat exit exit_group fork getegid geteuid getgid getgroups getpgid
		getpgrp getpid getppid getpriority getresgid getresuid getrlimit getrusage getsid gettid getuid ioprio_get
		ioprio_set prctl rseq set_robust_list get_robust_list set_tid_address setfsgid setfsuid setgid
		setgroups setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setuid uretprobe vfork
		wait4 waitid`,
		`sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
		sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler
		sched_yield getcpu`,
		`futex futex_requeue futex_wait futex_waitv futex_wake`,
		`kill pause pidfd_open pidfd_send_signal restart_syscall rt_sigaction rt_sigpending rt_sigprocmask
		rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sigaltstack tgkill tkill`,
		// Calls that only reduce rights. The agent uses Landlock; an engine whose
		// libseccomp does not know its calls omits them, and the agent works without.
		`landlock_add_rule landlock_create_ruleset landlock_restrict_self seccomp`,
		// Time, random numbers, and facts about the machine.
		`alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time
		timer_create timer_delete timer_getoverrun timer_gettime timer_settime times`,
		`getrandom sysinfo uname`,
	}, " "))
}

// The kernel's numbers of socket families, types and protocols.
const (
	familyUnix    = 1
	familyInet    = 2
	familyInet6   = 10
	familyNetlink = 16

	sockStream = 1
	sockDgram  = 2
	sockTypes  = 0xf // without the flags beside the type

	protoDefault, protoICMP, protoTCP, protoUDP, protoICMP6 = 0, 1, 6, 17, 58

	netlinkRoute = 0
)

// socketRules allow Unix sockets, TCP, UDP and ping. For other families, and for other
// Internet protocols such as SCTP, DCCP and L2TP, the kernel would load modules. The C
// library reads interfaces and addresses through netlink's route.
func socketRules() []profileRule {
	rules := []profileRule{
		allow("socket", is(0, familyUnix)),
		allow("socketpair", is(0, familyUnix)),
		allow("socket", is(0, familyNetlink), is(2, netlinkRoute)),
	}
	for _, family := range []uint64{familyInet, familyInet6} {
		for kind, protocols := range [][]uint64{
			sockStream: {protoDefault, protoTCP},
			sockDgram:  {protoDefault, protoUDP, protoICMP, protoICMP6},
		} {
			for _, protocol := range protocols {
				rules = append(rules, allow("socket", is(0, family), masked(1, sockTypes, uint64(kind)), is(2, protocol)))
			}
		}
	}
	return rules
}

// chooseSeccomp chooses the profile of a box.
func (l *Launcher) chooseSeccomp(e *engine, p *plan) error {
	var text []byte
	var err error
	switch {
	case l.config.SeccompProfile == EngineSeccomp:
		return nil
	case l.config.SeccompProfile != "":
		text, err = readProfile(l.config.SeccompProfile)
	case e.has("seccomp"):
		text, err = json.Marshal(ourProfile())
	}
	if err != nil || text == nil {
		return err
	}
	return l.setProfile(e, p, text)
}

func readProfile(name string) ([]byte, error) {
	bad := func(err error) error {
		return sandbox.Errorf(sandbox.InvalidArgument, `Leave seccomp out to use warmbox's own profile, or set "engine" to use the engine's.`,
			"Cannot use the seccomp profile %s: %w", name, err)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, bad(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxJSON))
	if err == nil && !json.Valid(text) {
		err = errors.New("it is not JSON")
	}
	if err != nil {
		return nil, bad(err)
	}
	return text, nil
}

const noteProfile = "Podman reads a seccomp profile from a file, and this Podman does not see our file: its own profile applies."

// setProfile sets the profile of a plan in the form that the engine accepts: Docker its
// text, Podman the name of a file.
func (l *Launcher) setProfile(e *engine, p *plan, text []byte) error {
	switch {
	case !e.podman:
		p.request.Seccomp = string(text)
		return nil
	case !e.local():
		p.notes = l.notes.add(p.notes, noteProfile)
		return nil
	}
	dir, err := l.dirs.cacheDir("seccomp")
	if err != nil {
		return fmt.Errorf("store the seccomp profile: %w", err)
	}
	sum := sha256.Sum256(text)
	name := hex.EncodeToString(sum[:8]) + ".json"
	p.request.Seccomp = filepath.Join(dir, name)
	if exists(p.request.Seccomp) {
		return nil
	}
	if err := writeFile(dir, name, text, 0o600); err != nil {
		return fmt.Errorf("store the seccomp profile: %w", err)
	}
	return nil
}
