//go:build !darwin && !windows

package main

import (
	"errors"
	"os/exec"
)

var errNoScreen = errors.New("there is no screen")

// opener returns the program that opens an address in the person's browser, or errNoScreen without a display, as
// over ssh.
func opener(lookup func(string) (string, bool), address string) (*exec.Cmd, error) {
	x, _ := lookup("DISPLAY")
	wayland, _ := lookup("WAYLAND_DISPLAY")
	if x == "" && wayland == "" {
		return nil, errNoScreen
	}
	return exec.Command("xdg-open", address), nil
}
