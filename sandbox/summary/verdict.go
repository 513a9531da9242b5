package summary

import (
	"strconv"
	"strings"
)

// verdict returns the first line: how the command ended and how much it printed.
func (s *Summarizer) verdict(exit Exit) string {
	text := "exit " + strconv.Itoa(exit.Code)
	if exit.Code < 0 {
		text = "no exit code"
	}
	if why := exit.why(); why != "" {
		text += " (" + why + ")"
	}
	switch {
	case s.bytes == 0:
		return text + ", no output"
	case s.binary != "":
		return text + ", binary output: " + s.binary + ", " + size(s.bytes)
	}
	text += ", " + strconv.Itoa(s.lines) + " line"
	if s.lines != 1 {
		text += "s"
	}
	return text + ", " + size(s.bytes)
}

// why returns the known meaning of an exit code.
func (e Exit) why() string {
	switch {
	case e.TimedOut:
		return "timed out"
	case e.Signal != "":
		return e.Signal
	}
	return codes[e.Code]
}

// codes are the exit codes of shells and timeout(1); those above 128 denote signals.
var codes = map[int]string{
	124: "as timeout has it",
	126: "cannot be executed",
	127: "command not found",
	129: "SIGHUP",
	130: "SIGINT, interrupted",
	131: "SIGQUIT",
	132: "SIGILL, illegal instruction",
	134: "SIGABRT, aborted",
	135: "SIGBUS, bus error",
	136: "SIGFPE, arithmetic error",
	137: "SIGKILL, killed, perhaps out of memory",
	139: "SIGSEGV, segmentation fault",
	141: "SIGPIPE, broken pipe",
	143: "SIGTERM, terminated",
	152: "SIGXCPU, CPU time limit",
	153: "SIGXFSZ, file size limit",
}

// size formats a number of bytes with a suitable unit.
func size(n int64) string {
	switch {
	case n < 1000:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1_000_000:
		return decimal(float64(n)/1e3) + " kB"
	case n < 1_000_000_000:
		return decimal(float64(n)/1e6) + " MB"
	}
	return decimal(float64(n)/1e9) + " GB"
}

func decimal(f float64) string {
	if f >= 10 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}
