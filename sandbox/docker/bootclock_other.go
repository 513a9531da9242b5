//go:build !linux

package docker

func bootClock() bootTime { return wallClock() }
