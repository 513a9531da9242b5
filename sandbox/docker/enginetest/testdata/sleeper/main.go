// Sleeper is a container's only program: it starts itself once more, and both
// wait for ever.
package main

import (
	"os"
	"os/exec"
	"time"
)

func main() {
	if len(os.Args) == 1 {
		exec.Command("/sleeper", "child").Start()
	}
	time.Sleep(1000 * time.Hour)
}
