// Package spell finds the known name that a misspelt one probably stands for, so that
// an error message can end with "did you mean …?". It knows no names of its own.
package spell

import "github.com/agnivade/levenshtein"

// Nearest returns the known name with the fewest typing errors, or "" where that would
// be a guess: at most one error, and one more for each three letters of name.
func Nearest(name string, known []string) string {
	if i := Closest(name, known, 1+len(name)/3); i >= 0 {
		return known[i]
	}
	return ""
}

// Closest returns the index of the first known name with the fewest typing errors, or -1
// if each has more than most.
func Closest(name string, known []string, most int) int {
	best, fewest := -1, most+1
	for i, k := range known {
		if n := levenshtein.ComputeDistance(name, k); n < fewest {
			best, fewest = i, n
		}
	}
	return best
}
