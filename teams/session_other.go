//go:build !linux

package teams

import "teambridge/teams/transcript"

// sessionLiveness does not look: the start time of a process has another form here.
func sessionLiveness(transcript.Process) (state Liveness, looked bool) { return Unknown, false }

// thisProcess says of this process what is in leadProcess: nothing that
// would be known to be so here.
func thisProcess() (space, start string) { return "", "" }
