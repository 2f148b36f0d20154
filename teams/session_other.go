//go:build !linux

package teams

import "teambridge/teams/transcript"

// sessionLiveness checks nothing: on this system, start times of processes have another form.
func sessionLiveness(transcript.Process) (state Liveness, looked bool) { return Unknown, false }

// thisProcess returns nothing: on this system, leadProcess has no known form.
func thisProcess() (space, start string) { return "", "" }

// Terminal returns "": it is not implemented on this system.
func Terminal(transcript.Process) string { return "" }
