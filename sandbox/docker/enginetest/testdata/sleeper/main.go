// Sleeper is the only program of a container: it starts itself once more, and both
// processes sleep.
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
