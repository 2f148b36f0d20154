package main

import "os/exec"

// killWithChildren leaves it at the end of cmd's context killing cmd alone. To kill what it
// started would take a job object.
func killWithChildren(*exec.Cmd) {}
