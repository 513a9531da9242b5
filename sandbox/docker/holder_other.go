//go:build !linux

package docker

// holder returns 0: the system does not say who locked a file.
func holder(string) int { return 0 }
