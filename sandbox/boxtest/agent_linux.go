package boxtest

import "github.com/warmbox/warmbox/sandbox/agent"

func agentMain(args []string) int { return agent.Main(args) }
