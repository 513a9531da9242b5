// Package spell finds the known name that a misspelt one probably stands for, so that
// an error message can end with "did you mean …?". It knows no names of its own.
package spell

import "github.com/agnivade/levenshtein"

// Nearest returns the known name with the fewest typing errors, or "" where that would
// be a guess: at most one error, and one more for each three letters of name.
func Nearest(name string, known []string) string {
	best, fewest := "", len(name)/3+2
	for _, k := range known {
		if n := levenshtein.ComputeDistance(name, k); n < fewest {
			best, fewest = k, n
		}
	}
	return best
}
