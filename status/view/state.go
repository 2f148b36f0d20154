package view

import "teambridge/status/api"

// State returns the word that people read for a state of a message that was sent: the same for each way in which it travels.
func State(of string) string {
	switch of {
	case api.Queued, api.Stored:
		return "waiting"
	case api.Verified, api.Received:
		return "sent"
	case api.Consumed, api.Confirmed:
		return "received"
	case api.NotSent, api.Failed:
		return "not sent"
	case api.Unconfirmed:
		return "unknown"
	}
	return of // of waiting, seen, lost and unknown, it is the same
}
