//go:build !linux

package boxtest

func agentMain([]string) int { return 1 } // the agent is a Linux program
