package transcript

import "testing"

func TestStep(t *testing.T) {
	t.Parallel()
	user := func(more, text string) string {
		return `{"type":"user","uuid":"u"` + more + `,"message":{"content":[{"type":"text","text":"` + text + `"}]}}`
	}
	assistant := func(more, message, text string) string {
		return `{"type":"assistant","uuid":"a"` + more + `,"message":{"content":[{"type":"text","text":"` + text + `"}]` + message + `}}`
	}
	for _, test := range []struct {
		what, line string
		want       Step
	}{
		{"a prompt", user("", "do it"), Begins},
		{"a command", user("", "<command-name>/review</command-name>"), Begins},
		{"the end of a background task", user(`,"isMeta":true`, "<task-notification>…"), Begins},
		{"a message of another session", user(`,"isMeta":true,"origin":{"kind":"peer","msg_id":"m"}`, "Another session wrote:"), Begins},
		{"what a hook says to the model", user(`,"isMeta":true`, "Stop hook feedback"), Within},
		{"a summary", user(`,"isCompactSummary":true`, "This session is being continued"), Within},
		{"the output of a command", user("", "<local-command-stdout>x</local-command-stdout>"), Within},
		{"the result of a tool", `{"type":"user","uuid":"u","message":{"content":[{"type":"tool_result","tool_use_id":"c"}]}}`, Within},
		{"an interrupt", user("", "[Request interrupted by user]"), Interrupts},
		{"an interrupt of a tool", user("", "[Request interrupted by user for tool use]"), Interrupts},
		{"a prompt about an interrupt", user("", "[Request interrupted by user] is what I saw"), Begins},
		{"a text", assistant("", "", "so"), Speaks},
		{"before a tool", assistant("", `,"stop_reason":"tool_use"`, "so"), Speaks},
		{"a pause", assistant("", `,"stop_reason":"pause_turn"`, "so"), Speaks},
		{"the last text", assistant("", `,"stop_reason":"end_turn"`, "done"), Stops},
		{"a refusal", assistant("", `,"stop_reason":"refusal"`, "no"), Stops},
		{"an error of the API", assistant(`,"isApiErrorMessage":true`, `,"model":"<synthetic>","stop_reason":"stop_sequence"`, "API Error: 400"), Fails},
		{"what is added when the session is resumed", assistant("", `,"model":"<synthetic>","stop_reason":"stop_sequence"`, "No response requested."), Within},
		{"the same words of a model", assistant("", `,"model":"m","stop_reason":"end_turn"`, "No response requested."), Stops},
		{"hooks have run", `{"type":"system","subtype":"stop_hook_summary"}`, Hooks},
		{"the turn is over", `{"type":"system","subtype":"turn_duration"}`, Ends},
		{"a compaction", `{"type":"system","subtype":"compact_boundary"}`, Within},
		{"in the middle of a turn", `{"type":"attachment","attachment":{"type":"queued_command","prompt":"more"}}`, Within},
		{"a queue", `{"type":"queue-operation","operation":"enqueue","content":"x"}`, Within},
	} {
		r, ok := Parse([]byte(test.line))
		if got := r.Step(); !ok || got != test.want {
			t.Errorf("%s: got %d, %t, want %d", test.what, got, ok, test.want)
		}
	}
}
