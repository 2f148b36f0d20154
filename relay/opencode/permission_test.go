package opencode

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"teambridge/relay/agent"
)

// A question shows the person the arguments of the tool, by the names that front ends know.
// The requests and messages are those of OpenCode 1.18.33.
func TestPermissionRequest(t *testing.T) {
	t.Parallel()
	const tool = `{"data": {"id": "msg_1", "type": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "tool", "id": "other", "name": "read", "state": {"input": {}}},
		{"type": "tool", "id": "call_1", "name": %q, "state": {"status": "running", "input": %s}}]}}`
	for _, test := range []struct {
		request, message string
		want             agent.Use
	}{
		{`{"action": "bash", "resources": ["touch z"], "save": ["touch *"]}`, fmt.Sprintf(tool, "bash", `{"command": "touch z", "description": "d"}`),
			agent.Use{Tool: "Bash", Display: "Bash", Description: "touch z", Input: []byte(`{"command":"touch z","description":"d"}`), Session: []string{"bash(touch *)"}}},
		{`{"action": "edit", "resources": ["w"], "save": ["*"]}`, fmt.Sprintf(tool, "write", `{"path": "/w", "content": "a"}`),
			agent.Use{Tool: "Edit", Display: "Write", Description: "w", Input: []byte(`{"content":"a","file_path":"/w"}`), Session: []string{"edit(*)"}}},
		{`{"action": "edit", "resources": ["w"]}`, fmt.Sprintf(tool, "edit", `{"path": "/w", "oldString": "a", "newString": "b"}`),
			agent.Use{Tool: "Edit", Display: "Edit", Description: "w", Input: []byte(`{"file_path":"/w","new_string":"b","old_string":"a"}`)}},
		{`{"action": "external_directory", "resources": ["/etc/*"]}`, fmt.Sprintf(tool, "read", `{"path": "/etc/hostname"}`),
			agent.Use{Tool: "external_directory", Reason: "Read needs it", Description: "/etc/*", Input: []byte(`{"file_path":"/etc/hostname","resources":["/etc/*"]}`)}},
		{`{"action": "bash", "resources": ["touch z"]}`, "", // the server does not send it
			agent.Use{Tool: "Bash", Description: "touch z", Input: []byte(`{"metadata":null,"resources":["touch z"]}`)}},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/session/ses_1/message/msg_1" || test.message == "" {
				http.NotFound(w, r)
				return
			}
			_, _ = fmt.Fprint(w, test.message)
		}))
		r := request{SessionID: "ses_1"}
		r.Source.MessageID, r.Source.CallID = "msg_1", "call_1"
		must(t, json.Unmarshal([]byte(test.request), &r))
		a := &Agent{client: newClient(server.URL, "", ""), id: "ses_1"}
		test.want.Kind, test.want.ID = agent.AsksPermission, "call_1"
		if diff := cmp.Diff(test.want, a.use(t.Context(), r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.request, diff)
		}
		a.close()
		server.Close()
	}
}

// A denial is recorded before the answer is sent: no event distinguishes it from a failure.
func TestDenialIsRemembered(t *testing.T) {
	t.Parallel()
	o := Options{State: t.TempDir(), Permission: &agent.Permission{Allow: []string{"Read"}}}
	session := uuid.NewString()
	known := func(call string) bool {
		marked := o.adapter(session).marked
		return marked(deniedCall("msg_1", call))
	}
	answered := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		answered++
		if !known("call 1") {
			t.Error("the denial was answered before it was remembered")
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	a := &Agent{client: newClient(server.URL, "", ""), options: o, session: session, id: "ses_1"}
	t.Cleanup(a.close)
	for _, r := range []request{{Action: "bash"}, {Action: "read"}} {
		r.SessionID, r.Source.MessageID, r.Source.CallID = "ses_1", "msg_1", map[string]string{"bash": "call 1", "read": "call 2"}[r.Action]
		a.answer(t.Context(), r)
	}
	if answered != 2 || known("call 2") {
		t.Errorf("%d answers, and what was allowed is denied: %t", answered, known("call 2"))
	}
}
