package boxtest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A probe lists all that warmbox could leave behind: containers and volumes, processes
// below this one, descriptors and goroutines, and files in the directories of sockets and
// temporary files.
type probe struct {
	things     map[string]bool
	goroutines int
}

// settleTime is how long an end under way may take. Engines remove containers after they
// have answered.
const settleTime = 10 * time.Second

// orphanTime is how long a container may stay whose server has ended. It is unknown which
// test started it: a test of another package may be about to reattach to it.
const orphanTime = 2 * time.Minute

const orphan = ", whose server has ended"

func takeProbe() probe {
	p := probe{things: map[string]bool{}, goroutines: runtime.NumGoroutine()}
	for _, list := range [][]string{engineThings(), processes(), descriptors(), files()} {
		for _, thing := range list {
			p.things[thing] = true
		}
	}
	return p
}

// compare probes again until nothing new is left or its time is up. It returns what is
// left.
func (p probe) compare() string {
	var left []string
	began := time.Now()
	for orphans := began; ; { // when only orphans were left for the last time
		now := takeProbe()
		left = left[:0]
		for thing := range now.things {
			if !p.things[thing] {
				left = append(left, thing)
			}
		}
		slices.Sort(left)
		if now.goroutines > p.goroutines && !fuzzing() {
			left = append(left, fmt.Sprintf("%d goroutines, %d before", now.goroutines, p.goroutines))
		}
		if len(left) == 0 {
			return ""
		}
		if !slices.ContainsFunc(left, func(thing string) bool { return !strings.HasSuffix(thing, orphan) }) {
			orphans = time.Now()
		}
		if time.Since(orphans) > settleTime || time.Since(began) > orphanTime {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if strings.HasSuffix(left[len(left)-1], "before") {
		var stacks strings.Builder
		pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		left = append(left, stacks.String())
	}
	return "  " + strings.Join(left, "\n  ") + "\n"
}

// fuzzing reports whether the fuzzer runs, which starts goroutines.
func fuzzing() bool {
	f := flag.Lookup("test.fuzz")
	return f != nil && f.Value.String() != ""
}

// processes returns the descendants of this process.
func processes() (list []string) {
	parents := map[int]int{}
	names := map[int]string{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		open, shut := strings.IndexByte(string(stat), '('), strings.LastIndexByte(string(stat), ')')
		if err != nil || open < 0 || shut < open {
			continue
		}
		fields := strings.Fields(string(stat[shut+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
		names[pid] = string(stat[open : shut+1])
	}
	for pid := range parents {
		for up := parents[pid]; up > 1; up = parents[up] {
			if up == os.Getpid() {
				list = append(list, fmt.Sprintf("process %d %s", pid, names[pid]))
				break
			}
		}
	}
	return list
}

func descriptors() (list []string) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(target, "anon_inode:") || strings.HasPrefix(target, "/proc/") {
			continue // the poller's descriptor, and that of this listing
		}
		list = append(list, "descriptor "+e.Name()+" "+target)
	}
	return list
}

// files returns the files in the directories where warmbox creates sockets and temporary
// files.
func files() (list []string) {
	dirs := []string{filepath.Join(os.TempDir(), "warmbox*")}
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
		dirs = append(dirs, filepath.Join(run, "warmbox"))
	}
	for _, pattern := range dirs {
		roots, _ := filepath.Glob(pattern)
		for _, root := range roots {
			filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
				if path != root || !d.IsDir() { // the directory itself may stay
					list = append(list, "file "+path)
				}
				return nil
			})
		}
	}
	return list
}

// engineThings returns warmbox's containers and all dangling volumes, if an engine
// answers. Volumes with agents are left on purpose.
func engineThings() (list []string) {
	var containers []struct {
		ID     string
		Labels map[string]string
	}
	query("/containers/json?all=1&filters="+`{"label":["dev.warmbox.box"]}`, &containers)
	for _, c := range containers {
		server, _ := strconv.Atoi(c.Labels["dev.warmbox.server-pid"])
		thing := "container " + c.ID[:min(12, len(c.ID))]
		switch {
		case !runs(server):
			list = append(list, thing+orphan)
		case isOurs(server):
			list = append(list, thing)
		}
	}
	var volumes struct{ Volumes []struct{ Name string } }
	query("/volumes?filters="+`{"dangling":["true"]}`, &volumes)
	for _, v := range volumes.Volumes {
		if !strings.HasPrefix(v.Name, "warmbox-agent-") {
			list = append(list, "volume "+v.Name)
		}
	}
	return list
}

func runs(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return pid > 0 && err == nil
}

// isOurs reports whether a process is this one or a descendant. Packages are tested side
// by side, so other containers do not concern this test.
func isOurs(pid int) bool {
	for pid > 1 && pid != os.Getpid() {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return true // the process has just ended
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		pid, _ = strconv.Atoi(fields[1])
	}
	return pid > 1
}

// query sends a request to the engine on its usual socket.
func query(path string, answer any) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", "/var/run/docker.sock")
		},
	}}
	req, err := http.NewRequestWithContext(ctx, "GET", "http://engine"+strings.ReplaceAll(path, `"`, "%22"), nil)
	if err != nil {
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	json.Unmarshal(body, answer)
}
