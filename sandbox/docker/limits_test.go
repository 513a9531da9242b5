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

// Boxes start on an engine that refuses sysctls, with a note about what they lack.
func TestEngineThatRefusesSysctlsGetsNone(t *testing.T) {
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
			if bytes.Contains(text, []byte(`"kernel.shmall"`)) {
				refused++
				return fail(http.StatusInternalServerError, "OCI runtime create failed: open /proc/sys/kernel/shmall: permission denied: unknown")
			}
			r.Body = io.NopCloser(bytes.NewReader(text))
		}
		return real.RoundTrip(r)
	}).Client
	for i, want := range []int{1, 0} {
		b := launch(t, l, sandbox.Spec{})
		if notes := b.Place().Notes; len(notes) != want || want == 1 && notes[0] != noteSysctls || refused != 1 {
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
