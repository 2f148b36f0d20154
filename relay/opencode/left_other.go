//go:build !linux

package opencode

import "os/exec"

// dieWithUs does nothing: this system has no such feature. The next server that is started ends a leftover
// one.
func dieWithUs(*exec.Cmd) {}
