package api

// Profile is a profile that agents can be given: a file of Claude Code's subagents.
type Profile struct {
	Name            string   `json:"name"` // empty if the file has none
	Description     string   `json:"description"`
	Tools           []string `json:"tools"`           // null: all
	DisallowedTools []string `json:"disallowedTools"` // null: none
	Model           string   `json:"model"`           // empty: the agent's default
	Path            string   `json:"path"`
	HiddenBy        string   `json:"hiddenBy,omitempty"` // the file that is used in its place
	Problem         string   `json:"problem,omitempty"`  // why it cannot be used
	Prompt          *string  `json:"prompt,omitempty"`   // only from "profile show"
}
