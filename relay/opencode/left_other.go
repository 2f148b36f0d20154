//go:build !linux

package opencode

import "os/exec"

// dieWithUs does nothing, because this system has no such feature. The next server ends a leftover one.
func dieWithUs(*exec.Cmd) {}
