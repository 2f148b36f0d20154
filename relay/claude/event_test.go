package claude

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, line string
		want       Payload // nil: an error
	}{
		{"init", `{"type":"system","subtype":"init","session_id":"s","model":"m","permissionMode":"plan","claude_code_version":"2.1.257","tools":["x"]}`,
			Init{Session: "s", Model: "m", PermissionMode: "plan", Version: "2.1.257"}},
		{"another system line", `{"type":"system","subtype":"status","status":null}`, Other{Type: "system", Subtype: "status"}},
		{"echo", `{"type":"user","isReplay":true,"uuid":"u","session_id":"s","timestamp":"2026-11-20T18:09:27.918Z","message":{"role":"user","content":"hi"}}`,
			Echo{UUID: "u", Stamped: true}},
		{"echo of a known one", `{"type":"user","isReplay":true,"uuid":"u","message":{"content":"hi"}}`, Echo{UUID: "u"}},
		{"a summary is no echo", `{"type":"user","isReplay":false,"uuid":"u","timestamp":"x"}`, Other{Type: "user"}},
		{"a tool's result", `{"type":"user","uuid":"u","message":{"content":[{"type":"tool_result"}]},"tool_use_result":{"stdout":"x"}}`, Other{Type: "user"}},
		{"lifecycle", `{"type":"command_lifecycle","command_uuid":"u","state":"queued","uuid":"other"}`, Lifecycle{UUID: "u", State: "queued"}},
		{"assistant", `{"type":"assistant","session_id":"s","parent_tool_use_id":null,"message":{"content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"a"},{"type":"tool_use","name":"Bash"},{"type":"text","text":"b"}]}}`,
			Assistant{Tools: []string{"Bash"}}},
		{"messages", `{"type":"assistant","message":{"content":[{"type":"tool_use","name":"SendMessage","input":{"to":"bob"}},{"type":"tool_use","name":"SendMessage","input":{"type":"broadcast"}}]}}`,
			Assistant{Tools: []string{"SendMessage", "SendMessage"}, Recipients: []string{"bob", "*"}}},
		{"a subagent's", `{"type":"assistant","parent_tool_use_id":"toolu_1","message":{"content":"a"}}`, Assistant{}},
		{"result", `{"type":"result","subtype":"success","is_error":true,"result":"API Error","terminal_reason":"api_error","user_message_uuids":["u"]}`,
			Result{Subtype: "success", IsError: true, Text: "API Error", Reason: "api_error", UUIDs: []string{"u"}}},
		{"result before anything", `{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found"]}`,
			Result{Subtype: "error_during_execution", IsError: true, Errors: []string{"No conversation found"}}},
		{"question", `{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool"}}`,
			ControlRequest{ID: "r", Subtype: "can_use_tool", Body: []byte(`{"subtype":"can_use_tool"}`)}},
		{"answer", `{"type":"control_response","response":{"subtype":"success","request_id":"r","response":{"mode":"plan"}}}`,
			ControlResponse{ID: "r", Body: []byte(`{"mode":"plan"}`)}},
		{"bare answer", `{"type":"control_response","response":{"subtype":"success","request_id":"r"}}`, ControlResponse{ID: "r"}},
		{"refusal", `{"type":"control_response","response":{"subtype":"error","request_id":"r","error":"no"}}`, ControlResponse{ID: "r", Error: "no"}},
		{"refusal without a word", `{"type":"control_response","response":{"subtype":"error","request_id":"r"}}`, ControlResponse{ID: "r", Error: `answered with "error"`}},
		{"a type nobody knows, with fields of other types", `{"type":"new_thing","subtype":"x","uuid":5,"message":"text","result":{}}`, Other{Type: "new_thing", Subtype: "x"}},
		{"no type", `{}`, Other{}},
		{"a known type, with a field of another", `{"type":"result","result":{}}`, nil},
		{"type is a number", `{"type":1}`, nil},
		{"question without a request", `{"type":"control_request","request_id":"r"}`, nil},
		{"array", `[{"type":"result"}]`, nil},
		{"two objects", `{"type":"a"}{"type":"b"}`, nil},
		{"text", `Debugger attached.`, nil},
		{"torn", `{"type":"result","subtype":"succ`, nil},
		{"empty", ``, nil},
	} {
		got, _, err := parse([]byte(test.line))
		if (err != nil) != (test.want == nil) {
			t.Errorf("%s: got error %v", test.name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
