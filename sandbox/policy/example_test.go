package policy_test

import (
	"errors"
	"fmt"

	"github.com/warmbox/warmbox/sandbox/policy"
)

// Every simple command of a line must begin with an entry of the allowlist.
func ExampleCommands_Check() {
	list := policy.Commands{Allow: []string{"go test", "grep", "tail"}, Deny: []string{"go test -exec"}}
	for _, cmd := range []string{
		"go test ./... 2>&1 | tail -5",
		"go test ./... && rm -rf build",
		"grep -rn TODO $(rm x)",
	} {
		fmt.Printf("%s\n\t%v\n", cmd, list.Check(cmd, nil))
	}
	// Output:
	// go test ./... 2>&1 | tail -5
	// 	<nil>
	// go test ./... && rm -rf build
	// 	command not in whitelist: rm
	// grep -rn TODO $(rm x)
	// 	command not in whitelist: rm
}

// A Denial says what would be accepted instead.
func ExampleDenial() {
	list := policy.Commands{Allow: []string{"go test", "go vet", "ls"}}
	err := list.Check("go get example.com/x", nil)
	if denial, ok := errors.AsType[*policy.Denial](err); ok {
		fmt.Println(denial.Reason)
		fmt.Println(denial.Accept)
	}
	// Output:
	// command not in whitelist: go get
	// Allowed of go: go test, go vet.
}

// A user's approval replaces an entry of the allowlist, but not the other rules.
func ExampleCommands_Judge() {
	list := policy.Commands{Allow: []string{"ls"}}
	for _, cmd := range []string{"ls -l", "rm -rf build", "LD_PRELOAD=x rm -rf build"} {
		v := list.Judge(cmd, nil)
		fmt.Printf("%s: %v, approvable: %v\n", cmd, v.Denial, v.Approvable)
	}
	// Output:
	// ls -l: <nil>, approvable: false
	// rm -rf build: command not in whitelist: rm, approvable: true
	// LD_PRELOAD=x rm -rf build: the variable LD_PRELOAD must not be set: it is not known to be harmless, and could make a command run other code, approvable: false
}

// An entry with a tag and a digest pins the tag.
func ExamplePin() {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	list := []string{"debian:*", "golang:1.26@" + digest}
	for _, ref := range []string{"debian:12", "golang:1.26", "golang:1.25"} {
		name, allowed := policy.Pin(list, ref)
		fmt.Printf("%q %v\n", name, allowed)
	}
	// Output:
	// "debian:12" true
	// "golang@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" true
	// "golang:1.25" false
}
