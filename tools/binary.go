package tools

import (
	"strings"

	"github.com/warmbox/warmbox/sandbox/excerpt"
)

// binaryOutput says which streams are binary data, "" if none is.
func binaryOutput(stdout, stderr excerpt.Excerpt) string {
	var list []string
	for _, s := range []struct {
		name string
		excerpt.Excerpt
	}{{"stdout", stdout}, {"stderr", stderr}} {
		if s.Binary != "" {
			list = append(list, s.name+" is binary, "+excerpt.Count(s.Bytes, "byte")+", "+s.Binary)
		}
	}
	return strings.Join(list, "; ")
}
