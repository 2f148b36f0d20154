package api

// Profile is a profile that agents can be given: a file of Claude Code's subagents.
type Profile struct {
	Name            string   `json:"name"` // empty if the file does not tell
	Description     string   `json:"description"`
	Tools           []string `json:"tools"`           // null: all
	DisallowedTools []string `json:"disallowedTools"` // null: none
	Model           string   `json:"model"`           // empty: what the agent uses by itself
	Path            string   `json:"path"`
	HiddenBy        string   `json:"hiddenBy,omitempty"` // the file that is used in its place
	Problem         string   `json:"problem,omitempty"`  // why it cannot be used
	Prompt          *string  `json:"prompt,omitempty"`   // of "profile show" alone
}
