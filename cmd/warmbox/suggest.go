package main

import (
	"fmt"

	"github.com/warmbox/warmbox/spell"
)

// didYouMean ends a sentence about an unknown name with the known one that was
// probably meant, if there is any.
func didYouMean(name string, known []string) string {
	if best := spell.Nearest(name, known); best != "" {
		return fmt.Sprintf("; did you mean %s?", best)
	}
	return ""
}
