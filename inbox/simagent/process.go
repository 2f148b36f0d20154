package simagent

import "time"

// Process says which process leads a team, as leadProcess in config.json.
type Process struct {
	PID     int
	Space   string    // host name, "#" and the pid namespace: "vm#pid:[4026531836]"
	Claimed time.Time // zero: the time the team is made
	Start   string    // start time in clock ticks since boot: field 22 of /proc/<pid>/stat
}
