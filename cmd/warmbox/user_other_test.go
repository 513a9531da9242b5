//go:build !linux

package main

import "os/exec"

// asOrdinaryUser changes nothing: only on Linux do the tests run as root.
func asOrdinaryUser(*exec.Cmd) {}

func (h home) own(string) error { return nil }
