package claude

import (
	"encoding/json"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
)

// Names in Claude Code that permissions depend on.
const (
	planMode        = "plan"
	defaultMode     = "default"
	exitPlanMode    = "ExitPlanMode"
	askUserQuestion = "AskUserQuestion"
	skipPermissions = "--dangerously-skip-permissions"
	allowSkipping   = "--allow-dangerously-skip-permissions"
)

// changing lists the tools that can change something. Monitor and PowerShell run commands, as Bash does.
// Tools such as Skill, Agent and Workflow use these to run something. Claude Code accepts names that it does
// not know.
var changing = []string{"Bash", "PowerShell", "Monitor", "Edit", "MultiEdit", "Write", "NotebookEdit", "mcp__*"}

// planSettings returns the settings of plan mode, which require a permission prompt for the given tools
// whatever other rules say.
func planSettings(asked []string) (string, error) {
	data, err := json.Marshal(map[string]any{
		"permissions": map[string]any{"ask": asked}, "sandbox": map[string]any{"autoAllowBashIfSandboxed": false}, "useAutoModeDuringPlan": false,
	})
	return string(data), err
}

// permissions tracks the permission mode of a process.
type permissions struct {
	mode    string            // the last reported mode; empty if none was reported
	limit   string            // the widest allowed mode; empty if there is no limit
	setting map[string]string // requested modes that are not yet confirmed, by request id
}

// report checks the mode that the process reports, and returns an error if it is wider than allowed.
func (s *permissions) report(p Payload) error {
	switch p := p.(type) {
	case Init:
		if s.limit == "" {
			s.limit = p.PermissionMode // a plain program got no flags, so its first report is the limit
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

func (s *permissions) reported(got string) error {
	if got == "" {
		return nil
	}
	s.mode = got
	if s.limit == "" || !mode.Wider(got, s.limit) {
		return nil
	}
	for _, asked := range s.setting {
		if !mode.Wider(got, asked) {
			return nil // the answer to the request follows
		}
	}
	return &agent.WidenedError{Given: s.limit, Got: got}
}

// decided notes that a person has allowed a tool use. An agent whose plan is approved leaves plan mode for
// the default.
func (s *permissions) decided(u agent.Use, d agent.Decision) {
	if u.Kind == agent.AsksPlan && d.Allow && mode.Wider(defaultMode, s.limit) {
		s.limit = defaultMode
	}
}
