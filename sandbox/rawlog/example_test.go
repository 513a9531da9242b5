package rawlog_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"regexp"

	"github.com/warmbox/warmbox/sandbox/rawlog"
)

// A run writes its output to a Log. A Reader then reads a range of lines, and
// searches.
func Example() {
	dir, err := os.MkdirTemp("", "rawlog")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store := &rawlog.Store{Dir: dir}

	run := store.Create(rawlog.Meta{Exec: "e1", Box: "b1", Cmd: "make test"})
	run.Write(rawlog.Stdout, []byte("compiling\nlinking\n"))
	run.Write(rawlog.Stderr, []byte("warning: unused variable\n"))
	run.Write(rawlog.Stdout, []byte("testing\nFAIL: 1 of 9\n"))
	run.Finish(rawlog.End{Status: "exited", Code: 1})
	run.Close()

	r, err := store.Open("e1")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for i, q := range []rawlog.Query{
		{From: 2, Most: 2, Bytes: 1000},
		{Most: 10, Bytes: 1000, Stream: rawlog.Stderr},
		{From: 1, Most: 10, Bytes: 1000, Match: regexp.MustCompile("FAIL"), Context: 1},
	} {
		page, err := r.Read(context.Background(), q)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("query", i+1)
		for _, line := range page.Lines {
			fmt.Printf("%d %s\n", line.Number, line.Text)
		}
	}
	fmt.Println("exit code", r.End.Code)
	// Output:
	// query 1
	// 2 linking
	// 3 warning: unused variable
	// query 2
	// 3 warning: unused variable
	// query 3
	// 4 testing
	// 5 FAIL: 1 of 9
	// exit code 1
}

// A log can be continued after its server has ended. Output that was lost meanwhile
// is recorded as a gap.
func ExampleStore_Reopen() {
	dir, err := os.MkdirTemp("", "rawlog")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store := &rawlog.Store{Dir: dir}

	run := store.Create(rawlog.Meta{Exec: "e1", Cmd: "make"})
	run.Write(rawlog.Stdout, []byte("one\n"))
	run.Detach()

	run, err = store.Reopen("e1")
	if err != nil {
		log.Fatal(err)
	}
	known := run.Stats()
	run.Skip(known.Bytes+100, known.Lines+10, "the box had no room")
	run.Write(rawlog.Stdout, []byte("last\n"))
	run.Close()

	stats := run.Stats()
	fmt.Printf("%d of %d bytes: %s\n", stats.Kept, stats.Bytes, stats.Reason)
	// Output: 9 of 109 bytes: the box had no room
}
