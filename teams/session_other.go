//go:build !linux

package teams

import "teambridge/teams/transcript"

// sessionLiveness does not look: the start time of a process has another form here.
func sessionLiveness(transcript.Process) (state Liveness, looked bool) { return Unknown, false }
