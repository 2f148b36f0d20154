// Package delivery has what the ways to a running agent have in common.
package delivery

// An UnsentError means that certainly nothing of a message came to the agent, so that sending it again cannot make a second copy.
// After any other error of a way, the agent may have the message.
type UnsentError struct{ Err error }

func (e *UnsentError) Error() string { return "nothing was sent: " + e.Err.Error() }

func (e *UnsentError) Unwrap() error { return e.Err }
