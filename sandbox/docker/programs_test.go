package docker

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

var programsImage = flag.String("programs", "warmbox/sandbox:full", "in the weekly run, the image whose programs must work under the seccomp profile")

// A program must do under our profile what it does without one. A program that the
// image lacks is skipped.
type program struct{ name, needs, cmd, stdout string }

// programs use what a profile might forbid: threads, tracing, sockets, memory of many
// kinds.
var programs = []program{
	{"bash", "bash", `coproc c { cat; }; echo hi >&"${c[1]}"; read -r x <&"${c[0]}"; mkfifo f; echo "$x" >f & cat f; ulimit -c`, "hi\n0\n"},
	{"coreutils", "timeout", `dd if=/dev/zero of=d bs=1M count=4 conv=fsync 2>/dev/null; cp --reflink=auto --preserve=all d e; truncate -s 1 d; stat -c %s d e
timeout 5 sort -S 1M --parallel=2 </dev/null; nice -n 5 tail -c 2 e | od -An -c; touch -d yesterday e; sync e`, "1\n4194304\n  \\0  \\0\n"},
	{"perl", "perl", `perl -MSocket -MIPC::Msg -MIPC::SysV=IPC_PRIVATE -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or die $!;
my $q = IPC::Msg->new(IPC_PRIVATE, 0600) or die $!; $q->remove;
if (my $p = fork) { waitpid $p, 0; print $? >> 8, "\n" } else { exit 3 }'`, "3\n"},
	{"python threads", "python3", `python3 -c 'import threading, time
t = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(50)]
[x.start() for x in t]; [x.join() for x in t]; print("joined")'`, "joined\n"},
	{"python processes", "python3", `cat >m.py <<'EOF'
import multiprocessing as m
from multiprocessing import shared_memory
def f(x): return x * x
if __name__ == "__main__":
    for how in "fork", "spawn", "forkserver":
        with m.get_context(how).Pool(2) as p: print(how, sum(p.map(f, range(10))))
    s = shared_memory.SharedMemory(create=True, size=10); s.close(); s.unlink()
EOF
python3 m.py`, "fork 285\nspawn 285\nforkserver 285\n"},
	{"python on loopback", "python3", `cat >s.py <<'EOF'
import asyncio, http.server, socket, threading, urllib.request
s = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=s.serve_forever, daemon=True).start()
print(urllib.request.urlopen("http://localhost:%d/" % s.server_port).status)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0))
u.sendto(b"hi", u.getsockname()); print(u.recv(9))
async def main():
    p = await asyncio.create_subprocess_exec("true"); print(await p.wait())
asyncio.run(main())
EOF
python3 s.py 2>/dev/null`, "200\nb'hi'\n0\n"},
	{"git", "git", `git init -q r && cd r && seq 2000 >f && git add f && git commit -qm 1 && git gc -q && git worktree add -q ../w && git clone -q . ../c &&
git -C ../c fsck && git -C ../c log --oneline | wc -l`, "1\n"},
	{"threads in C", "gcc", `cat >t.c <<'EOF'
#include <pthread.h>
#include <stdio.h>
void *f(void *x) { return x; }
int main(void) { pthread_t t; void *r; pthread_create(&t, 0, f, "made"); pthread_join(t, &r); puts(r); }
EOF
gcc -pthread t.c && ./a.out`, "made\n"},
	{"address sanitizer", "gcc", `cat >t.c <<'EOF'
#include <stdlib.h>
int main(void) { char *p = malloc(1); free(p); return *p; }
EOF
gcc -g -fsanitize=address t.c && ./a.out 2>&1 | grep -o heap-use-after-free | head -1`, "heap-use-after-free\n"},
	{"leak sanitizer", "gcc", `cat >t.c <<'EOF'
#include <stdlib.h>
int main(void) { malloc(7); malloc(7); return 0; }
EOF
gcc -g -fsanitize=address t.c && ./a.out 2>&1 | grep -o '14 byte(s) leaked in 2 allocation(s)'`, "14 byte(s) leaked in 2 allocation(s)\n"},
	{"thread sanitizer", "gcc", `cat >t.c <<'EOF'
#include <pthread.h>
int n;
void *f(void *x) { n++; return x; }
int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); n++; pthread_join(t, 0); }
EOF
gcc -g -fsanitize=thread t.c && ./a.out 2>&1 | grep -o 'data race' | head -1`, "data race\n"},
	{"go with races", "go", `cat >r.go <<'EOF'
package main
func main() {
	n, done := 0, make(chan bool)
	go func() { n++; done <- true }()
	n++
	<-done
}
EOF
go run -race r.go 2>&1 | grep -o 'DATA RACE' | head -1`, "DATA RACE\n"},
	{"go on loopback", "go", `cat >n.go <<'EOF'
package main
import "net"
func main() {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil { panic(err) }
	if _, err := net.Dial("tcp", l.Addr().String()); err != nil { panic(err) }
	if _, err := l.Accept(); err != nil { panic(err) }
	println("met")
}
EOF
go run n.go 2>&1`, "met\n"},
	{"node", "node", `cat >n.js <<'EOF'
const { Worker } = require('worker_threads'), http = require('http'), fs = require('fs');
const s = http.createServer((q, r) => r.end('hi')).listen(0, '127.0.0.1', () =>
  http.get({ port: s.address().port, host: '127.0.0.1' }, r => r.on('data', d => {
    console.log(String(d)); s.close();
    fs.writeFileSync('w', 'x'); fs.watch('w').close();
    const child = 'require("worker_threads").parentPort.postMessage(require("child_process").execSync("echo child") + "")';
    new Worker(child, { eval: true }).on('message', m => process.stdout.write(m));
  })));
EOF
node n.js`, "hi\nchild\n"},
	{"gdb", "gdb", `cat >t.c <<'EOF'
int f(int x) { return x; }
int main(void) { return f(42); }
EOF
gcc -g t.c && gdb -q -batch -ex 'break f' -ex run -ex 'print x' ./a.out 2>&1 | grep -F '$1'
sleep 100 & gdb -q -batch -p $! -ex 'info program' 2>&1 | grep -o detached; kill $!`, "$1 = 42\ndetached\n"},
	{"strace", "strace", `strace -f -o o sh -c '/bin/true; exit 0'; grep -c 'execve("/bin/true"' o
sleep 1 & strace -p $! -o p 2>/dev/null; grep -c 'exited with 0' p`, "1\n1\n"},
	{"java", "java", `cat >A.java <<'EOF'
public class A {
  public static void main(String[] a) throws Exception {
    var t = new Thread(() -> {}); t.start(); t.join();
    var s = new java.net.ServerSocket(0);
    new java.net.Socket("localhost", s.getLocalPort());
    System.gc();
    System.out.println(new ProcessBuilder("true").start().waitFor());
  }
}
EOF
java A.java`, "0\n"},
	{"libreoffice", "soffice", `printf '<h1>a heading</h1>' >a.html && soffice --headless --convert-to docx:"MS Word 2007 XML" a.html >/dev/null 2>&1 &&
soffice --headless --convert-to pdf a.docx >/dev/null 2>&1 && head -c 4 a.pdf`, "%PDF"},
}

func TestProgramsUnderTheProfile(t *testing.T) {
	runPrograms(t, sandbox.Spec{})
}

func TestMoreProgramsUnderTheProfile(t *testing.T) {
	weekly.Only(t)
	runPrograms(t, sandbox.Spec{Image: *programsImage})
}

func runPrograms(t *testing.T, spec sandbox.Spec) {
	spec.Workspace = t.TempDir()
	box := startBox(t, spec)
	boxtest.Expect(t, box, `for p in bash timeout perl python3 git gcc go node gdb strace java soffice; do command -v $p >/dev/null && touch .has-$p; done; true`, 0, "")
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(spec.Workspace, ".has-"+p.needs)); err != nil {
				t.Skipf("the image has no %s", p.needs)
			}
			boxtest.Expect(t, box, `cd "$(mktemp -d)" || exit; `+p.cmd, 0, p.stdout)
		})
	}
}
