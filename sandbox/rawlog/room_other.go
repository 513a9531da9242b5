//go:build !linux && !darwin

package rawlog

import (
	"math"
	"os"
)

// Room does not know the capacity and reports the maximum.
func Room(string) (Space, error) { return Space{Free: math.MaxInt64, All: math.MaxInt64}, nil }

// lock does nothing: on systems without flock an open file cannot be deleted, or
// only this process knows that it is being written.
func lock(*os.File) {}

func locked(*os.File) bool { return false }
