package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/relay/agent"
)

// pollPermissions is the interval of queries for open permission requests while a turn runs.
const pollPermissions = 300 * time.Millisecond

// request is a request of a session, for a permission or for a person's answers.
type request struct {
	ID        string
	SessionID string

	// The fields of a request for a permission.
	Action    string
	Resources []string
	Save      []string
	Metadata  json.RawMessage
	Source    struct{ MessageID, CallID string }

	// The fields of a request for answers.
	Questions []question
	Tool      struct{ MessageID, CallID string }
}

type question struct {
	Question string   `json:"question"`
	Header   string   `json:"header"`
	Options  []option `json:"options"`
	Multiple bool     `json:"multiSelect"`
}

// UnmarshalJSON decodes OpenCode's form. The JSON names of the fields of question are those that front ends
// expect.
func (q *question) UnmarshalJSON(data []byte) error {
	type plain question
	var in struct {
		plain
		Multiple bool `json:"multiple"`
	}
	err := json.Unmarshal(data, &in)
	*q = question(in.plain)
	q.Multiple = in.Multiple
	return err
}

type option struct {
	Label       string `json:"label"`
	Description string `json:"description"`
}

func (c *client) requests(ctx context.Context, dir string) ([]request, error) {
	var all []request
	for _, path := range []string{"/api/permission/request", "/api/question/request"} {
		var a struct{ Data []request }
		if err := c.call(ctx, http.MethodGet, path+at(dir), nil, &a); err != nil {
			return nil, err
		}
		all = append(all, a.Data...)
	}
	return all, nil
}

// watchPermissions answers permission requests while turns run, until ctx ends.
func (a *Agent) watchPermissions(ctx context.Context) {
	var answering sync.WaitGroup
	defer answering.Wait()
	asked := map[string]context.CancelFunc{} // nil for a request of another session
	defer func() {
		for _, withdraw := range asked {
			if withdraw != nil {
				withdraw()
			}
		}
	}()
	tick := time.NewTicker(pollPermissions)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		a.mu.Lock()
		works := len(a.flights) > 0
		a.mu.Unlock()
		if !works && len(asked) == 0 {
			continue
		}
		list, err := a.requests(ctx, a.options.Dir)
		if err != nil {
			continue // the server is gone, or busy
		}
		for id, withdraw := range asked {
			if !slices.ContainsFunc(list, func(r request) bool { return r.ID == id }) {
				if withdraw != nil {
					withdraw() // the turn has ended
				}
				delete(asked, id)
			}
		}
		for _, r := range list {
			if _, known := asked[r.ID]; known {
				continue
			}
			ours, err := a.ours(ctx, r.SessionID)
			if err != nil {
				continue
			}
			asked[r.ID] = nil
			if ours {
				waiting, withdraw := context.WithCancel(ctx)
				asked[r.ID] = withdraw
				answering.Go(func() { a.answer(waiting, r) })
			}
		}
	}
}

// ours reports whether a session belongs to the agent or to one of its subagents.
func (a *Agent) ours(ctx context.Context, session string) (bool, error) {
	for range 10 {
		if session == a.id {
			return true, nil
		}
		s, err := a.client.session(ctx, session)
		if err != nil || s.Parent == "" {
			return false, err
		}
		session = s.Parent
	}
	return false, nil
}

// answer answers one request, unless it is withdrawn. If the answer does not arrive, the request stays open
// until a person answers it in OpenCode or the turn ends.
func (a *Agent) answer(ctx context.Context, r request) {
	u := a.use(ctx, r)
	d := a.grants.Decide(ctx, a.options.Permission, u)
	if ctx.Err() != nil {
		return
	}
	if !d.Allow {
		// Without the mark, the events show a failed call instead of a denied one. An error is ignored, since
		// it must not delay the answer.
		_ = a.options.mark(a.session, deniedCall(cmp.Or(r.Source.MessageID, r.Tool.MessageID), u.ID))
	}
	path, body := r.reply(a.options.Permission, d)
	for ctx.Err() == nil {
		err := a.call(ctx, http.MethodPost, path, body, nil)
		if err == nil || hasStatusAny(err) || pause(ctx, a.server.gone()) != nil {
			return // the request was answered or withdrawn
		}
	}
}

// reply returns the call that answers a request.
func (r request) reply(p *agent.Permission, d agent.Decision) (path string, body any) {
	if r.Questions == nil {
		path = sessionPath(r.SessionID, "/permission/"+url.PathEscape(r.ID)+"/reply")
		if d.Allow {
			// Not "always": OpenCode would remember that for every session of the project.
			return path, map[string]string{"reply": "once"}
		}
		return path, map[string]string{"reply": "reject", "message": p.Denial(d)}
	}
	path = sessionPath(r.SessionID, "/question/"+url.PathEscape(r.ID))
	if !d.Allow {
		return path + "/reject", nil
	}
	answers := [][]string{}
	for _, q := range r.Questions {
		answers = append(answers, []string{d.Answers[q.Question]})
	}
	return path + "/reply", map[string]any{"answers": answers}
}

// use converts a request to the form in which policies decide about it.
func (a *Agent) use(ctx context.Context, r request) agent.Use {
	mode, _ := a.mode.PermissionMode.Value()
	u := agent.Use{Kind: agent.AsksPermission, Tool: toolName(r.Action), ID: cmp.Or(r.Source.CallID, r.Tool.CallID), Mode: mode}
	if r.SessionID != a.id {
		u.Subagent = r.SessionID
	}
	if r.Questions != nil {
		u.Kind, u.Tool, u.ForPerson = agent.AsksPerson, "AskUserQuestion", true
		for _, q := range r.Questions {
			u.Asked = append(u.Asked, q.Question)
		}
		u.Input, _ = json.Marshal(map[string]any{"questions": r.Questions}) // cannot fail: it holds strings
		return u
	}
	u.ForPerson = mode == modePlan // in plan mode, a list allows no tool with effects
	u.Description = strings.Join(r.Resources, "\n")
	tool, input := a.toolCall(ctx, r)
	if own := tool == r.Action || r.Action == "edit"; input != nil && own {
		u.Display = toolName(tool)
	} else {
		if input == nil {
			input = map[string]json.RawMessage{"metadata": r.Metadata}
		} else {
			u.Reason = toolName(tool) + " needs it"
		}
		input["resources"], _ = json.Marshal(r.Resources) // cannot fail: it holds strings
	}
	u.Input, _ = json.Marshal(input) // cannot fail: it was decoded from JSON
	if len(r.Save) > 0 {
		u.Session = []string{r.Action + "(" + strings.Join(r.Save, ", ") + ")"}
	}
	return u
}

// toolCall returns the tool of a request, with its input. A person needs both to decide, but the request
// names only a file or a command. If the server does not answer, tool is empty and input nil.
func (a *Agent) toolCall(ctx context.Context, r request) (tool string, input map[string]json.RawMessage) {
	var m struct {
		Data struct {
			Content []struct {
				Type, ID, Name string
				State          struct{ Input map[string]json.RawMessage }
			}
		}
	}
	if r.Source.MessageID == "" || a.call(ctx, http.MethodGet, sessionPath(r.SessionID, "/message/"+url.PathEscape(r.Source.MessageID)), nil, &m) != nil {
		return "", nil
	}
	for _, c := range m.Data.Content {
		if c.Type == "tool" && c.ID == r.Source.CallID {
			input = map[string]json.RawMessage{}
			for key, value := range c.State.Input {
				input[cmp.Or(fieldNames[key], key)] = value
			}
			return c.Name, input
		}
	}
	return "", nil
}

// fieldNames maps fields to Claude Code's names, which front ends know.
var fieldNames = map[string]string{"path": "file_path", "filePath": "file_path", "oldString": "old_string", "newString": "new_string"}

// PolicyNames returns names of OpenCode's tools in the form that [agent.Permission] uses.
func PolicyNames(tools []string) (names []string) {
	for _, t := range tools {
		names = append(names, toolName(t))
	}
	return names
}

// toolName returns Claude Code's name of an OpenCode action, so that one policy serves both programs. Without
// such a name it returns the action itself.
func toolName(action string) string {
	names := map[string]string{
		"bash": "Bash", "edit": "Edit", "write": "Write", "read": "Read", "glob": "Glob", "grep": "Grep", "webfetch": "WebFetch",
		"websearch": "WebSearch", "task": "Task", "todowrite": "TodoWrite", "skill": "Skill", "list": "LS",
	}
	return cmp.Or(names[action], action)
}
