package main

// Mode says how an agent works. What is missing stays as it is, and null is the agent's default.
type Mode struct {
	PermissionMode     string   `json:"permissionMode,omitempty" nullable:"1"`
	Model              string   `json:"model,omitempty" nullable:"1"`
	FallbackModel      string   `json:"fallbackModel,omitempty" nullable:"1"`
	CustomSystemPrompt string   `json:"customSystemPrompt,omitempty" nullable:"1"`
	AppendSystemPrompt string   `json:"appendSystemPrompt,omitempty" nullable:"1"`
	AllowedTools       []string `json:"allowedTools,omitempty" nullable:"1"`
	DisallowedTools    []string `json:"disallowedTools,omitempty" nullable:"1"`
}
