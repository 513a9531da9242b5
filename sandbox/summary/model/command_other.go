//go:build !unix

package model

import "os/exec"

// These systems have no process groups: only the command itself is killed.
func ownGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}
