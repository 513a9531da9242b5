package replay

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The variables of a played command. Bash reads the file that BASH_ENV names before it
// reads the command, and that file executes the player, so the command itself is sent as
// recorded and never runs.
const (
	playVar = "WARMBOX_REPLAY"      // the recording
	exitVar = "WARMBOX_REPLAY_EXIT" // its exit code
	stage   = "exec %q\n"           // the file that BASH_ENV names; its argument is the player
)

// played returns the arguments of exec that play a step instead of running its command.
func (s *Step) played(bashEnv string) (Args, error) {
	output, err := filepath.Abs(s.output)
	if err != nil {
		return nil, err
	}
	args := Args{"cmd": s.Cmd, "env": map[string]string{
		"BASH_ENV": bashEnv, playVar: output, exitVar: strconv.Itoa(s.Exit),
		"GORACE": "atexit_sleep_ms=0", // the race detector's second at the end is no part of the recording
	}}
	for name, value := range s.Args {
		args[name] = value
	}
	return args, nil
}

// Player plays a recording and ends the program with its exit code, if the environment
// names one. It is the first thing that a main function does.
func Player() {
	path := os.Getenv(playVar)
	if path == "" {
		return
	}
	code, err := strconv.Atoi(os.Getenv(exitVar))
	if err == nil {
		err = play(path)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(125)
	}
	os.Exit(code)
}

// play plays a recording. Each of its lines begins with what it is:
//
//	1 text   a line of standard output
//	2 text   a line of standard error
//	1\text   the same without a newline, also for 2
//	wait N   a pause of N ms
//	read     wait for a line of standard input
//	leave    start a process that outlives the command
//	stay     do not end
//
// Lines of one stream that follow each other are one write.
func play(path string) error {
	recording, err := readMaybeGzip(path)
	if err != nil {
		return err
	}
	var pending bytes.Buffer
	to := os.Stdout
	flush := func() error {
		_, err := pending.WriteTo(to)
		return err
	}
	for line := range strings.Lines(string(recording)) {
		line = strings.TrimSuffix(line, "\n")
		stream := streamOf(line)
		if stream == nil || stream != to {
			if err := flush(); err != nil {
				return err
			}
		}
		if stream == nil {
			if err := direct(line); err != nil {
				return err
			}
			continue
		}
		to = stream
		pending.WriteString(line[2:])
		if line[1] == ' ' {
			pending.WriteByte('\n')
		}
	}
	return flush()
}

// streamOf returns the stream of a line of output, nil for any other line.
func streamOf(line string) *os.File {
	switch {
	case strings.HasPrefix(line, "1 "), strings.HasPrefix(line, `1\`):
		return os.Stdout
	case strings.HasPrefix(line, "2 "), strings.HasPrefix(line, `2\`):
		return os.Stderr
	}
	return nil
}

// direct does what a line says that is no output.
func direct(line string) error {
	what, n, _ := strings.Cut(line, " ")
	switch what {
	case "wait":
		ms, err := strconv.Atoi(n)
		time.Sleep(time.Duration(ms) * time.Millisecond) // the pause is what is played
		return err
	case "read":
		one := make([]byte, 1) // unbuffered: the next line belongs to the next read
		for one[0] != '\n' {
			if _, err := os.Stdin.Read(one); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
		return nil
	case "leave":
		return exec.Command("sleep", "600").Start()
	case "stay":
		time.Sleep(time.Hour) // longer than any session; a select without cases is a deadlock
	}
	return fmt.Errorf("the recording has a line that is none: %.80q", line)
}
