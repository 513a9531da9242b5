//go:build !unix

package model

import "os/exec"

// There are no process groups here: the command alone is killed.
func ownGroup(*exec.Cmd) {}

func endGroup(*exec.Cmd) {}
