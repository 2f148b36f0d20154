package transcript

// Step is what a record says of where turns begin and end. What else it says is told by its [Kind] and its fields.
type Step int

// The steps.
const (
	Within     Step = iota // no turn begins or ends with it
	Begins                 // a turn begins: with a prompt or a command, or by itself, with the end of a background task or what another session wrote
	Speaks                 // the agent says or does something
	Stops                  // the same, and it stops: its turn ends unless a hook makes it go on
	Fails                  // the model API failed, and the turn ends
	Interrupts             // the user stopped the turn
	Hooks                  // the hooks have run that can make the agent go on
	Ends                   // the turn has ended, and no hook makes the agent go on
)

// Step returns what the record says of turns. That of a subagent is about the subagent's turn.
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
			return Within // Claude Code adds it to a turn that was cut when it resumes the session
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

// Synthetic is the model of texts that Claude Code itself says in the agent's name.
const Synthetic = "<synthetic>"
