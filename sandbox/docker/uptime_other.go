//go:build !linux

package docker

func sinceBoot() moment { return wallClock() }
