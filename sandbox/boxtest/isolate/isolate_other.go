//go:build !linux

package isolate

func closeOnExec() {}

func resetMask() {}
