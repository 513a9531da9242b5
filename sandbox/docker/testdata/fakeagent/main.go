// Fakeagent runs in the place of the agent, in the mode that the file beside it names.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
)

func main() {
	mode, err := os.ReadFile("/opt/warmbox/mode")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	path := os.Args[len(os.Args)-1]
	switch {
	case len(os.Args) == 2:
		fillBacklog(os.Args[1])
	case string(mode) == "silent":
		select {
		case <-time.After(time.Hour):
		}
	case string(mode) == "crash":
		for i := range 60 {
			fmt.Fprintf(os.Stderr, "line %d\n", i+1)
		}
		os.Exit(3)
	case string(mode) == "serve":
		serve(path)
	case string(mode) == "crowd":
		dialInCrowd(path)
	}
}

// serve sends each host its number, and accepts the next when one has hung up.
func serve(path string) {
	for n := 0; ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("unix", path)
		if err != nil {
			continue
		}
		// The listener closed the connection, or the host accepted it and sends a byte.
		if got, _ := conn.Read(make([]byte, 1)); got == 1 {
			n++
			fmt.Fprintf(conn, "host %d of process %d\n", n, os.Getpid())
			io.Copy(io.Discard, conn)
		}
		conn.Close()
	}
}

// dialInCrowd lets other processes of the box fill the backlog, and dials when they
// report that it is full.
func dialInCrowd(path string) {
	for range 4 {
		child := exec.Command(os.Args[0], path)
		said, err := child.StdoutPipe()
		if err != nil {
			panic(err)
		}
		if err := child.Start(); err != nil {
			panic(err)
		}
		io.ReadFull(said, make([]byte, 1))
	}
	for {
		if conn, err := net.Dial("unix", path); err == nil {
			fmt.Fprintf(conn, "process %d\n", os.Getpid())
			// The listener closed the connection, or the host accepted it and sends a byte.
			if n, _ := conn.Read(make([]byte, 1)); n == 1 {
				select {}
			}
			conn.Close()
		}
		time.Sleep(time.Millisecond)
	}
}

// fillBacklog opens as many connections as it can, and sends on each.
func fillBacklog(path string) {
	var conns []net.Conn
	for range 300 {
		conn, err := net.DialTimeout("unix", path, 100*time.Millisecond)
		if err != nil {
			break
		}
		io.WriteString(conn, strings.Repeat("I am the agent\n", 10))
		conns = append(conns, conn)
	}
	fmt.Println("full", len(conns))
	select {}
}
