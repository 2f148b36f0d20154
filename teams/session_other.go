//go:build !linux

package teams

import "teambridge/teams/transcript"

// sessionLiveness does not look: the start time of a process has another form here.
func sessionLiveness(transcript.Process) (state Liveness, looked bool) { return Unknown, false }

// thisProcess returns nothing: leadProcess has no known form here.
func thisProcess() (space, start string) { return "", "" }

// Terminal is not known here.
func Terminal(transcript.Process) string { return "" }
