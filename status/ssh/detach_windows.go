package ssh

import "os/exec"

// detach does nothing: it ends when its stdin does.
func detach(*exec.Cmd) {}
