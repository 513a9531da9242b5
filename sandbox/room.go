package sandbox

import "slices"

// A Room is what a box lets its commands have.
type Room struct {
	Network  string  // "none" or "bridge"
	CPUs     float64 // cores
	Pids     int64   // processes and threads
	Tmp      int64   // bytes of /tmp
	Home     string  // the home directory; it, /tmp and the workspace are writable, and nothing else
	ReadOnly bool    // the workspace is not writable either
}

// commonPrograms are the programs that a box is searched for when it starts: those that models
// use most, and those that they take for granted.
var commonPrograms = []string{
	"bash", "python3", "python", "pip", "pip3", "uv", "node", "npm", "yarn", "pnpm", "bun", "deno", "go", "cargo", "java", "ruby", "perl", "php",
	"gcc", "clang", "make", "cmake", "git", "rg", "fd", "jq", "curl", "wget", "ssh", "unzip", "zip", "sqlite3", "ffmpeg", "nano", "vim",
}

// among returns those of the known names that an agent reports, in their order: what it reports
// besides is ignored.
func among(known, reported []string) (list []string) {
	for _, name := range known {
		if slices.Contains(reported, name) {
			list = append(list, name)
		}
	}
	return list
}
