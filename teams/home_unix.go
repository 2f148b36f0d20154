//go:build !windows

package teams

// homeVariable holds the home directory.
const homeVariable = "HOME"
