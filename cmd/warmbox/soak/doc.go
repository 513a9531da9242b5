// Package soak tests the program for minutes with many clients while it injects one
// fault after the other: it kills containers, agents and servers, and hangs, crashes
// and restarts the engine. It consists of tests alone. They run the program as a team
// does, `warmbox http` on an engine, which they start for themselves, as root.
//
//	go test -race ./cmd/warmbox/soak -soak 10m -kills 100
//
// Each test logs its seed. The same seed injects the same faults in the same order,
// which finds most failures again.
package soak
