//go:build ignore

// This program is a loop without MCP. Its arguments are a program that reads a conversation and
// prints the model's answer; warmbox filter runs the commands of the answer.
//
//	go run doc/examples/loop.go my-model < question
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"
)

func main() {
	question, err := io.ReadAll(os.Stdin)
	conversation := string(question)
	for turn := 0; turn < 20 && err == nil; turn++ {
		answer := run(conversation, os.Args[1:]...)
		results := run(answer, "warmbox", "filter", "--guide", "--text-only")
		conversation += answer + results
		if results == "" { // no tag is left
			break
		}
	}
	fmt.Print(conversation)
}

func run(input string, command ...string) string {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), os.Stderr
	output, err := cmd.Output()
	if err != nil {
		log.Fatalf("%s: %v", command[0], err)
	}
	return string(output)
}
