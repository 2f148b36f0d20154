package transcript

// Step tells how a record marks the beginning or the end of a turn. [Record.Kind] and the fields tell the rest.
type Step int

// The steps.
const (
	Within     Step = iota // no turn begins or ends with it
	Begins                 // a turn begins, with a prompt or command, an ended background task, or a session's text
	Speaks                 // the agent says or does something
	Stops                  // the agent speaks or acts, and stops: its turn ends unless a hook makes it continue
	Fails                  // the model API failed, and the turn ends
	Interrupts             // the user stopped the turn
	Hooks                  // the hooks have run that can make the agent continue
	Ends                   // the turn has ended, and no hook makes the agent continue
)

// Step returns the record's step. For a record of a subagent, it is about the subagent's turn.
func (r *Record) Step() Step {
	switch r.Type {
	case "user":
		switch r.Kind() {
		case Prompt, Command, Notification, Peer:
			return Begins
		case Interrupted:
			return Interrupts
		}
	case "assistant":
		switch {
		case r.Message.Model == Synthetic && Texts(r.Message.Content, "\n") == "No response requested.":
			return Within // Claude Code adds this to a cut turn when it resumes the session
		case r.APIError:
			return Fails
		case r.Message.Stop != "" && r.Message.Stop != "tool_use" && r.Message.Stop != "pause_turn":
			return Stops
		}
		return Speaks
	case "system":
		switch r.Subtype {
		case "stop_hook_summary":
			return Hooks
		case "turn_duration":
			return Ends
		}
	}
	return Within
}

// Synthetic is the model of texts that Claude Code itself writes in the agent's name.
const Synthetic = "<synthetic>"
