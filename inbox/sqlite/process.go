package sqlite

import "fmt"

// A Process is one that has a database open.
type Process struct {
	PID     int
	Command string // its program and its first argument, such as "teambridge serve"; may be empty
}

func (p Process) String() string {
	if p.Command == "" {
		return fmt.Sprintf("process %d", p.PID)
	}
	return fmt.Sprintf("process %d (%s)", p.PID, p.Command)
}
