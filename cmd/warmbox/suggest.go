package main

import (
	"fmt"

	"github.com/agnivade/levenshtein"
)

// didYouMean ends a sentence about an unknown name with the known one that was
// probably meant, if there is any.
func didYouMean(name string, known []string) string {
	if best := nearest(name, known); best != "" {
		return fmt.Sprintf("; did you mean %s?", best)
	}
	return ""
}

// nearest returns the known name that the fewest typing errors lead to, or ""
// where that would be a guess: too many errors for so few letters.
func nearest(name string, known []string) string {
	best, least := "", len(name)/3+2
	for _, k := range known {
		if d := levenshtein.ComputeDistance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}
