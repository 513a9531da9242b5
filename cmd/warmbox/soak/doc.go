// Package soak has many clients work with the program for minutes while one thing
// after the other goes wrong: containers, agents and servers are killed, the engine
// hangs, crashes and restarts. It consists of tests alone. They run the program as a
// team does, `warmbox http` on an engine, and that engine is theirs, so that nobody
// else's work is in its way.
//
//	go test -race ./cmd/warmbox/soak -soak 10m -kills 100
//
// Each test prints the seed that it draws from. With the same seed the same goes wrong
// in the same order, which finds again most of what was found once.
package soak
