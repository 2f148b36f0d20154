package session

import (
	"fmt"
	"path/filepath"
	"testing"

	"teambridge/relay/agent"
	"teambridge/relay/wire"
)

// The outcome of a call is read from what all measured versions of Claude Code write: print has the fields next
// to the result in the output, keep those next to it in the transcript.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	const rejected = `The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed.`
	meta := func(more string) string { return `,"tool_result_meta":[{"id":"other"},{"id":"c1"` + more + `}]` }
	for _, test := range []struct {
		name, text  string
		fine        bool // the result is no error
		print, keep string
		want        wire.Outcome
	}{
		{"2.1.330: it is done", "hi", true, meta(`,"permission_decision":{"decision":"accept"}`), `,"permissionDecision":{"decision":"accept"}`, wire.OutcomeDone},
		{"a command that fails", "Exit code 3\nhi", false, ``, ``, wire.OutcomeFailed},
		{"2.1.330: a command that fails", "Exit code 3", false, meta(`,"permission_decision":{"decision":"accept"}`), `,"permissionDecision":{"decision":"accept"}`, wire.OutcomeFailed},
		{"a tool that is not there", "<tool_use_error>Error: No such tool available: ExitPlanMode</tool_use_error>", false, ``, ``, wire.OutcomeFailed},
		{"a message to nobody", "Not sent", true, `,"tool_use_result":{"success":false}`, `,"toolUseResult":{"success":false}`, wire.OutcomeFailed},
		{"in the background", "Command running in background", true, `,"tool_use_result":{"backgroundTaskId":"b"}`, `,"toolUseResult":{"backgroundTaskId":"b"}`, wire.OutcomeStarted},
		{"2.1.330: denied", "not today", false, meta(`,"non_execution_kind":"permission-rule","permission_decision":{"decision":"reject"}`), `,"toolDenialKind":"permission-rule"`, wire.OutcomeDenied},
		{"2.1.220: denied", "not today", false, meta(`,"non_execution_kind":"permission-rule"`), `,"toolDenialKind":"permission-rule"`, wire.OutcomeDenied},
		{"2.1.330: a rule of Read", "<tool_use_error>no</tool_use_error>", false, meta(`,"permission_decision":{"decision":"reject"}`), `,"permissionDecision":{"decision":"reject"}`, wire.OutcomeDenied},
		{"by the policy deny", agent.Unattended, false, ``, ``, wire.OutcomeDenied},
		{"by a person without a reason", agent.NotAllowed, false, ``, ``, wire.OutcomeDenied},
		{"with a list of tools", agent.Nobody + " These tools may be used: Read", false, ``, ``, wire.OutcomeDenied},
		{"a rule", "Permission to use Bash with command touch a has been denied.", false, ``, ``, wire.OutcomeDenied},
		{"a path", "touch in '/a' was blocked. For security, Claude Code may only create or modify files in …", false, ``, ``, wire.OutcomeDenied},
		{"a hook", "PreToolUse:Bash hook error: [/hook]: no", false, ``, ``, wire.OutcomeDenied},
		{"2.1.329: rejected at the terminal", rejected, false, ``, `,"toolDenialKind":"user-rejected","toolDenialBeforeRun":true,"entrypoint":"cli"`, wire.OutcomeDenied},
		{"rejected with a reason", rejected + " To tell you how to proceed, the user said:\nno", false, ``, `,"toolDenialKind":"user-rejected"`, wire.OutcomeDenied},
		{"interrupted while it ran", rejected, false, meta(`,"non_execution_kind":"user-rejected"`), `,"toolDenialKind":"user-rejected"`, wire.OutcomeCut},
		{"2.1.330: interrupted while it asked", rejected, false, meta(`,"non_execution_kind":"user-rejected"`), `,"toolDenialKind":"user-rejected","toolDenialBeforeRun":true,"entrypoint":"sdk-cli"`, wire.OutcomeCut},
		{"2.1.80: interrupted while it ran", "Exit code 137\n[Request interrupted by user for tool use]", false, ``, ``, wire.OutcomeCut},
		{"2.1.329: added when the session was resumed", "[Tool call interrupted: the session ended before this call's result was recorded.]", false, ``, `,"toolDenialKind":"interrupted"`, wire.OutcomeCut},
		{"nobody answers any more", "Tool permission request failed: Error: Tool permission stream closed before response received", false,
			meta(`,"non_execution_kind":"permission-rule","permission_decision":{"decision":"reject"}`), `,"toolDenialKind":"permission-rule","toolDenialUnanswered":"stream-closed"`, wire.OutcomeCut},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			call := `{"type":"assistant","uuid":"a1","message":{"content":[{"type":"tool_use","id":"c1","name":"SendMessage"}]}}`
			result := func(more string) string {
				return fmt.Sprintf(`{"type":"user","uuid":"r1"%s,"message":{"content":[{"type":"tool_result","tool_use_id":"c1","is_error":%t,"content":%q}]}}`, more, !test.fine, test.text)
			}
			path := filepath.Join(t.TempDir(), "s.jsonl")
			write(t, path, kept("user", "f1", "", "go"), call, result(test.keep))
			lists := map[string][]wire.Envelope{"kept": read(t, path, Options{})}
			if test.print != "" || test.keep == "" {
				a := New() // it is not ended: an end would cut open calls
				tells(a, quoted(isInit))
				tells(a, []byte(call))
				lists["printed"] = tells(a, []byte(result(test.print)))
			}
			for where, list := range lists {
				if got := outcomes(list)["c1"]; got != test.want {
					t.Errorf("%s: got %s, want %s", where, got, test.want)
				}
			}
		})
	}
}

// outcomes has the outcomes of calls, by id.
func outcomes(list []wire.Envelope) map[string]wire.Outcome {
	all := map[string]wire.Outcome{}
	for _, e := range list {
		if end, ok := e.Event.(*wire.ToolCallEnd); ok {
			all[end.Call] = end.Outcome
		}
	}
	return all
}

// A denial by teambridge is known whatever the agent writes about it, also in a subagent.
func TestDenied(t *testing.T) {
	t.Parallel()
	a := New()
	var all []wire.Envelope
	a.Denied("c2") // it asked before it printed the call
	for _, line := range []string{
		isInit, echo("f1", "go"), says("a1", `{'type':'tool_use','id':'c1','name':'Task'},{'type':'tool_use','id':'c2','name':'Bash'},{'type':'tool_use','id':'c3','name':'Bash'}`),
		`{'type':'assistant','uuid':'a2','parent_tool_use_id':'c1','message':{'content':[{'type':'tool_use','id':'c4','name':'Read'}]}}`,
	} {
		all = append(all, tells(a, quoted(line))...)
	}
	a.Denied("c4")
	for _, line := range []string{
		`{'type':'user','uuid':'r2','parent_tool_use_id':'c1','message':{'content':[{'type':'tool_result','tool_use_id':'c4','is_error':true,'content':'not today'}]}}`,
		`{'type':'user','uuid':'r1','message':{'content':[{'type':'tool_result','tool_use_id':'c2','content':'not today'},{'type':'tool_result','tool_use_id':'c3','is_error':true,'content':'not today'}]}}`,
		isDone,
	} {
		all = append(all, tells(a, quoted(line))...)
	}
	got := outcomes(all)
	for call, want := range map[string]wire.Outcome{"c1": wire.OutcomeCut, "c2": wire.OutcomeDenied, "c3": wire.OutcomeFailed, "c4": wire.OutcomeDenied} {
		if got[call] != want {
			t.Errorf("%s: got %s, want %s", call, got[call], want)
		}
	}
}
