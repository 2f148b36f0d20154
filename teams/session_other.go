//go:build !linux

package teams

import "teambridge/teams/transcript"

// sessionLiveness is Unknown: when a process started is written another way here.
func sessionLiveness(transcript.Process) Liveness { return Unknown }
