package simchild

import "strings"

// Scene is a turn that is written down in advance: tools are called in order, and then
// something is said. Nothing is really done.
type Scene struct {
	Match string `json:"match,omitempty"` // the texts that hold it; empty: all
	Calls []Call `json:"calls,omitempty"`
	Say   string `json:"say"`
	// Denied is said, and ends the turn, if a call is not allowed. The reason follows.
	Denied string `json:"denied,omitempty"`
}

// Call is a call of a tool.
type Call struct {
	Tool   string         `json:"tool"`
	Input  map[string]any `json:"input"`
	Result string         `json:"result,omitempty"`
	// Ask makes the child ask first (can_use_tool). Rule is the rule that the question
	// offers for the session, as "git push *".
	Ask  bool   `json:"ask,omitempty"`
	Rule string `json:"rule,omitempty"`
}

// scene returns the first scene for a text.
func (s Script) scene(text string) (Scene, bool) {
	for _, scene := range s.Scenes {
		if strings.Contains(text, scene.Match) {
			return scene, true
		}
	}
	return Scene{}, false
}

// play plays a scene and returns what is said in the end.
func (c *child) play(s Scene) string {
	for _, call := range s.Calls {
		id := c.use(call.Tool, call.Input)
		if call.Ask {
			request := object{"tool_use_id": id, "permission_suggestions": []object{{"type": "addRules", "behavior": "allow", "destination": "session",
				"rules": []object{{"toolName": call.Tool, "ruleContent": call.Rule}}}}}
			if answer := c.question(call.Tool, call.Input, request); !strings.HasPrefix(answer, "allowed") {
				reason := strings.TrimPrefix(answer, "denied: ")
				c.used(id, reason, "permission-rule")
				return s.Denied + " " + reason
			}
		}
		c.used(id, call.Result, "")
	}
	return s.Say
}
