package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
)

// TestMemoryThatNoProcessHolds fills all memory that outlives processes, and checks
// that half of the box's memory is left.
func TestMemoryThatNoProcessHolds(t *testing.T) {
	l := newLauncher(t, Config{})
	b := launch(t, l, sandbox.Spec{Memory: 256 << 20})
	r := greet(t, b)
	const fill = `
for dir in /tmp /dev/shm; do head -c 1G /dev/zero >$dir/fill 2>/dev/null && echo "$dir holds 1 GB"; done
ipcmk -M 1G 2>/dev/null && echo "a segment of 1 GB"
n=0; while ipcmk -M 4M >/dev/null 2>&1; do ((n++)); ((n < 100)) || break; done
echo $((n * 4 + $(du -sm /tmp | cut -f1) + $(du -sm /dev/shm | cut -f1))) $(cat /proc/sys/kernel/msgmni /proc/sys/kernel/sem)`
	out, code := sh(t, b, r, fill)
	var total int
	if _, err := fmt.Sscanf(out, "%d 256 250 32000 32 128", &total); code != 0 || err != nil || total < 64 || total > 130 {
		t.Errorf("exit %d, %q", code, out)
	}
	if out, code := sh(t, b, r, "head -c 100M /dev/zero | tail -c 90M | wc -c"); code != 0 || out != "94371840\n" {
		t.Errorf("beside what is full: exit %d, %q", code, out)
	}
}

// The limits of /tmp, /dev/shm and System V come to half of the memory at most, for
// every size.
func TestMemoryThatCannotBeFreedIsHalfAtMost(t *testing.T) {
	for memory := int64(16 << 20); memory < 64<<30; memory += memory / 3 {
		for _, tmp := range []int64{1 << 20, min(defaultTmp, maxTmp(memory)), maxTmp(memory)} {
			c := limits{Memory: memory, Tmp: min(tmp, maxTmp(memory))}
			var pages int64
			fmt.Sscan(c.sysctls()["kernel.shmall"], &pages)
			if sum := c.Tmp + c.shm() + pages*4096; sum > memory/2 || pages < 100 {
				t.Errorf("%d of %d, %d pages of System V", sum, memory, pages)
			}
		}
	}
}

// The kernel memory of as many files as /tmp and /dev/shm can have is a small part of
// the memory, for every size, and there is a limit for every size.
func TestKernelMemoryOfFilesIsBounded(t *testing.T) {
	const perFile = 1536 // a tmpfs inode, its directory entry and a name of 255 bytes
	for memory := int64(16 << 20); memory < 64<<30; memory += memory / 3 {
		for _, tmp := range []int64{1, 1 << 20, maxTmp(memory)} {
			c := limits{Memory: memory, Tmp: tmp, Inodes: true}
			var sum int64
			for dir, options := range c.tmpfs() {
				_, after, _ := strings.Cut(options, "nr_inodes=")
				var n int64
				if fmt.Sscan(strings.Split(after, ",")[0], &n); n < minInodes {
					t.Errorf("%s: %s", dir, options)
				}
				sum += n
			}
			if most := memory / 12; sum*perFile > most {
				t.Errorf("memory %d, /tmp %d: %d files take %d bytes, want at most %d", memory, tmp, sum, sum*perFile, most)
			}
		}
	}
}

// The limits of inodes hold in the box, on both transports.
func TestFilesOfTmpfsAreLimited(t *testing.T) {
	eachTransport(t, func(t *testing.T, l *Launcher) {
		b := launch(t, l, sandbox.Spec{})
		const want = "65536 524288\n8192 65536\n2\n"
		if out, code := sh(t, b, greet(t, b), `df -k --output=itotal,size /tmp /dev/shm | sed 1d | tr -s ' ' | sed 's/^ //'; grep -cE ' /tmp | /dev/shm ' /proc/mounts`); out != want || code != 0 {
			t.Errorf("got %q, exit %d, want %q", out, code, want)
		}
	})
}

// Boxes start on an engine that refuses sysctls or nr_inodes, with a note about what
// they lack.
func TestEngineThatRefusesLimitsGetsNone(t *testing.T) {
	for _, c := range []struct{ name, sent, says, note string }{
		{"sysctls", `"kernel.shmall"`, "OCI runtime create failed: open /proc/sys/kernel/shmall: permission denied: unknown", noteSysctls},
		{"inodes", `nr_inodes=`, `unknown mount option "nr_inodes=65536": invalid mount option`, noteInodes},
	} {
		t.Run(c.name, func(t *testing.T) { refuseLimit(t, c.sent, c.says, c.note) })
	}
}

// refuseLimit starts two boxes on an engine that refuses requests with a text.
func refuseLimit(t *testing.T, sent, says, note string) {
	l := newLauncher(t, Config{})
	e, err := l.connector.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var refused int
	dial := e.Dialer()
	real := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	t.Cleanup(real.CloseIdleConnections)
	e.Client = fakeAt(t, e.endpoint.Host, func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/containers/create") {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			if bytes.Contains(text, []byte(sent)) {
				refused++
				return fail(http.StatusInternalServerError, says)
			}
			r.Body = io.NopCloser(bytes.NewReader(text))
		}
		return real.RoundTrip(r)
	}).Client
	for i, want := range []int{1, 0} {
		b := launch(t, l, sandbox.Spec{})
		if notes := b.Place().Notes; len(notes) != want || want == 1 && notes[0] != note || refused != 1 {
			t.Errorf("launch %d: notes %q, refused %d times", i, notes, refused)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A note says that /tmp is smaller than the spec says, and none if the spec says
// nothing.
func TestLargeTmpIsClampedAndNoted(t *testing.T) {
	l := newLauncher(t, Config{})
	for _, c := range []struct {
		tmp  int64
		note string
	}{
		{0, ""},
		{300 << 20, "/tmp holds 75 MB and not the 300 MB asked for: it counts as memory, of which the box has 200 MB."},
	} {
		b := launch(t, l, sandbox.Spec{Memory: 200 << 20, Tmp: c.tmp})
		if notes := strings.Join(b.Place().Notes, " "); notes != c.note {
			t.Errorf("tmp %d: %q", c.tmp, notes)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A box whose first process is killed just after its memory was used up says so, and
// another does not.
func TestEndReportsThatMemoryWasUsedUp(t *testing.T) {
	l := newLauncher(t, Config{})
	for _, memory := range []bool{true, false} {
		b := launch(t, l, sandbox.Spec{Memory: 64 << 20})
		r := greet(t, b)
		if memory {
			sh(t, b, r, "tail /dev/zero")
		}
		if err := b.engine.ContainerKill(t.Context(), b.container, "KILL"); err != nil {
			t.Fatal(err)
		}
		_, err := r.Read()
		if ended, ok := errors.AsType[*sandbox.EndedError](err); !ok || ended.Memory != memory || strings.Contains(err.Error(), "memory") != memory {
			t.Errorf("memory %v: %v", memory, err)
		}
		b.Close()
	}
}
