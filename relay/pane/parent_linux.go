package pane

import (
	"bytes"
	"os"
	"strconv"
)

// parentOf returns the parent of a process; 0 if it does not run.
func parentOf(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name of the program, in parentheses, can hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 || string(fields[0]) == "Z" {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1])) // 0 on an error
	return parent
}
