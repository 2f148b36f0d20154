package claude

import (
	"encoding/json"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
)

// What Claude Code calls things that permissions depend on.
const (
	planMode        = "plan"
	defaultMode     = "default"
	exitPlanMode    = "ExitPlanMode"
	askUserQuestion = "AskUserQuestion"
	skipPermissions = "--dangerously-skip-permissions"
	allowSkipping   = "--allow-dangerously-skip-permissions"
)

// changing lists the tools that can change something. Monitor and PowerShell run commands, as Bash does. Others that run
// something, such as Skill, Agent and Workflow, do it by these. Versions take names that they do not know.
var changing = []string{"Bash", "PowerShell", "Monitor", "Edit", "MultiEdit", "Write", "NotebookEdit", "mcp__*"}

// planSettings returns the settings of plan mode, in which the given tools are asked about, whatever other rules say.
func planSettings(asked []string) (string, error) {
	data, err := json.Marshal(map[string]any{
		"permissions": map[string]any{"ask": asked}, "sandbox": map[string]any{"autoAllowBashIfSandboxed": false}, "useAutoModeDuringPlan": false,
	})
	return string(data), err
}

// permissions is what is known of the permission mode of a process.
type permissions struct {
	mode    string            // the one in force, as far as it was told; empty if it was not
	limit   string            // what it may not exceed; empty if nobody said
	setting map[string]string // modes that were asked for and not answered, by the id of the request
}

// report takes what the process says of its mode, and returns an error if that is more than it was given.
func (s *permissions) report(p Payload) error {
	switch p := p.(type) {
	case Init:
		if s.limit == "" {
			s.limit = p.PermissionMode // of a plain program, which got no flags
		}
		return s.reported(p.PermissionMode)
	case Status:
		return s.reported(p.PermissionMode)
	case ControlResponse:
		mode, ok := s.setting[p.ID]
		delete(s.setting, p.ID)
		if ok && p.Error == "" {
			s.mode, s.limit = mode, mode
		}
	}
	return nil
}

func (s *permissions) reported(told string) error {
	if told == "" {
		return nil
	}
	s.mode = told
	if s.limit == "" || !mode.Wider(told, s.limit) {
		return nil
	}
	for _, asked := range s.setting {
		if !mode.Wider(told, asked) {
			return nil // the answer to the request comes after it
		}
	}
	return &agent.WidenedError{Given: s.limit, Got: told}
}

// decided notes that a person allowed a use of a tool. An agent whose plan is approved leaves plan mode for the default.
func (s *permissions) decided(u agent.Use, d agent.Decision) {
	if u.Kind == agent.AsksPlan && d.Allow && mode.Wider(defaultMode, s.limit) {
		s.limit = defaultMode
	}
}
