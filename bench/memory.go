package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// memoryIdle tells what a server and an agent hold that have hardly done anything,
// and the shells that stand ready.
func (d *bed) memoryIdle(ctx context.Context, r *Report) error {
	r.remember("server, idle", d.stdio.pid())
	agent := d.agentPid(ctx)
	if agent == 0 {
		return ctx.Err()
	}
	r.remember("agent", agent)
	spares := 0
	for _, pid := range children(agent) {
		if comm(pid) != comm(agent) { // else it is being started
			spares++
			r.remember(fmt.Sprintf("spare shell %d", spares), pid)
		}
	}
	return nil
}

// memoryAfter tells what the server holds when all is over.
func (d *bed) memoryAfter(_ context.Context, r *Report) error {
	r.remember("server, at the end", d.stdio.pid())
	return nil
}

func (r *Report) remember(what string, pid int) {
	if n := memory(pid, "VmRSS"); n > 0 {
		r.Memory = append(r.Memory, Memory{what, n, memory(pid, "RssAnon")})
	}
}

// agentPid finds the agent of the box, 0 where it is not among the processes of
// this machine: on an engine elsewhere that number is somebody else's.
func (d *bed) agentPid(ctx context.Context) int {
	if d.Engine == "" { // then it is the server's own child
		for _, pid := range children(d.stdio.pid()) {
			return pid
		}
		return 0
	}
	e, err := dial(d.Engine)
	if err != nil {
		return 0
	}
	defer e.client.Close()
	pid, err := e.initPid(ctx, d.box)
	if err != nil || !strings.Contains(comm(pid), "agent") {
		return 0
	}
	return pid
}

// comm is a process's name, "" where the system does not tell.
func comm(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return string(name)
}

// memory returns a process's figure of that name in bytes, and 0 where the
// system does not tell.
func memory(pid int, name string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == name+":" {
			kb, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			return kb << 10
		}
	}
	return 0
}

// resetPeak has the kernel count the server's peak anew, and returns what it has
// now; 0 where that cannot be had.
func (d *bed) resetPeak() int64 {
	if os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", d.stdio.pid()), []byte("5"), 0) != nil {
		return 0
	}
	return memory(d.stdio.pid(), "VmRSS")
}

// children lists those of all threads of a process.
func children(pid int) (pids []int) {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, t := range threads {
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		for field := range strings.FieldsSeq(string(list)) {
			if n, err := strconv.Atoi(field); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// parent returns the pid of a process's parent, 0 where the system does not tell.
func parent(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // a name may have spaces
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(string(fields[1]))
	return n
}

// descriptors counts the open files of a process; "?" where we may not look.
func descriptors(pid int) string {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return "?"
	}
	return strconv.Itoa(len(list))
}
