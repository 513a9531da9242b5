package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// memoryIdle reports the memory of an idle server, of its agent, and of the spare
// shells.
func (d *bed) memoryIdle(ctx context.Context, r *Report) error {
	r.addMemory("server, idle", d.stdio.pid())
	agent := d.agentPid(ctx)
	if agent == 0 {
		return ctx.Err()
	}
	r.addMemory("agent", agent)
	spares := 0
	for _, pid := range children(agent) {
		if comm(pid) != comm(agent) { // else it is still starting
			spares++
			r.addMemory(fmt.Sprintf("spare shell %d", spares), pid)
		}
	}
	return nil
}

// memoryAfter reports the memory of the server at the end.
func (d *bed) memoryAfter(_ context.Context, r *Report) error {
	r.addMemory("server, at the end", d.stdio.pid())
	return nil
}

func (r *Report) addMemory(what string, pid int) {
	if n := memory(pid, "VmRSS"); n > 0 {
		r.Memory = append(r.Memory, Memory{what, n, memory(pid, "RssAnon")})
	}
}

// agentPid returns the pid of the box's agent, or 0 if it does not run on this machine:
// with a remote engine, another process here may have the same pid.
func (d *bed) agentPid(ctx context.Context) int {
	if d.Engine == "" { // the agent is a child of the server
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

// comm returns the name of a process, "" if unknown.
func comm(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return string(name)
}

// memory returns a field of a process's status in bytes, 0 if unknown.
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

// resetPeak resets the kernel's peak of the server's memory, and returns the current
// value; 0 if that is not possible.
func (d *bed) resetPeak() int64 {
	if os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", d.stdio.pid()), []byte("5"), 0) != nil {
		return 0
	}
	return memory(d.stdio.pid(), "VmRSS")
}

// children lists the children of all threads of a process.
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

// parent returns the pid of a process's parent, 0 if unknown.
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

// descriptors counts the open files of a process; "?" without permission.
func descriptors(pid int) string {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return "?"
	}
	return strconv.Itoa(len(list))
}
