package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
)

// shownPrograms are the programs that a room names, there or missing. Each stands for itself or
// for what is the same.
var shownPrograms = [][]string{{"python3"}, {"pip3", "pip"}, {"node"}, {"npm"}, {"go"}, {"gcc"}, {"make"}, {"git"}, {"rg"}, {"jq"}, {"curl"}}

// roomOf describes what an isolated box has, in one line.
func roomOf(box *sandbox.Box) string {
	room := box.Place.Room
	parts := []string{"network"}
	if room.Network == noNetwork {
		parts[0] = "no network"
	}
	if box.Place.Memory > 0 {
		parts = append(parts, memory(box.Place.Memory)+" memory")
	}
	if room.CPUs > 0 {
		parts = append(parts, fmt.Sprintf("%.3g CPUs", room.CPUs))
	}
	if room.Tmp > 0 {
		parts = append(parts, "/tmp "+memory(room.Tmp))
	}
	if image := box.Describe().Image; image != "" {
		parts = append(parts, "image "+image)
	}
	return strings.Join(append(parts, programsOf(box)...), " · ")
}

// programsOf says which of the shown programs a box has, and which not.
func programsOf(box *sandbox.Box) (parts []string) {
	var has, lacks []string
	for _, names := range shownPrograms {
		if i := slices.IndexFunc(names, func(name string) bool { return slices.Contains(box.Has, name) }); i >= 0 {
			has = append(has, names[i])
		} else {
			lacks = append(lacks, names[len(names)-1])
		}
	}
	if len(has) == 0 {
		return nil // nothing is known
	}
	parts = append(parts, "has "+strings.Join(has, ", "))
	if len(lacks) > 0 {
		parts = append(parts, "not "+strings.Join(lacks, ", "))
	}
	return parts
}

// room returns the room of a box for a reply, once for each kind of room in a session. A box
// without isolation has none: it has what the machine has.
func (s *Set) room(owner sandbox.Owner, box *sandbox.Box) string {
	if box.Place.Room == nil || !s.told.once(owner, "box "+box.ID) {
		return ""
	}
	room := roomOf(box)
	if !s.told.once(owner, "room "+room) {
		return ""
	}
	return room
}
