package claude_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/mode"
)

func TestArgv(t *testing.T) {
	t.Parallel()
	const (
		id    = "aaaaaaaa-0000-4000-8000-000000000000"
		other = "bbbbbbbb-0000-4000-8000-000000000000"
		all   = " -p --input-format stream-json --output-format stream-json --verbose --replay-user-messages"

		tools = "Bash,PowerShell,Monitor,Edit,MultiEdit,Write,NotebookEdit,mcp__*"
	)
	var (
		settings = func(tools string) string {
			return ` --settings={"permissions":{"ask":["` + strings.ReplaceAll(tools, ",", `","`) + `"]},"sandbox":{"autoAllowBashIfSandboxed":false},"useAutoModeDuringPlan":false}`
		}
		asks = &agent.Permission{Ask: func(context.Context, agent.Use) agent.Decision { return agent.Decision{} }}
	)
	for _, test := range []struct {
		name    string
		options claude.Options
		want    string // the command, "" if it is refused
	}{
		{"bare", claude.Options{Command: []string{"claude"}, Session: id}, "claude" + all + " --session-id " + id + " --permission-mode=default"},
		{"resumed", claude.Options{Command: []string{"claude"}, Session: id, Resume: true}, "claude" + all + " --resume " + id + " --permission-mode=default"},
		{"by node", claude.Options{Command: []string{"node", "-r", "./hook.js", "x/cli.js", "--model", "haiku"}, Session: id},
			"node -r ./hook.js x/cli.js --model haiku" + all + " --session-id " + id + " --permission-mode=default"},
		{"a shell has a -c of its own", claude.Options{Command: []string{"sh", "-c", `exec claude "$@"`, "sh"}, Session: id},
			`sh -c exec claude "$@" sh` + all + " --session-id " + id + " --permission-mode=default"},
		{"what is there is not added", claude.Options{Command: strings.Fields("claude --print --verbose --input-format=stream-json --output-format stream-json --replay-user-messages"), Session: id},
			"claude --print --verbose --input-format=stream-json --output-format stream-json --replay-user-messages --session-id " + id + " --permission-mode=default"},
		{"the command names the session", claude.Options{Command: []string{"claude", "--session-id", id}}, "claude" + all + " --session-id " + id + " --permission-mode=default"},
		{"the command names one to resume", claude.Options{Command: []string{"claude", "-r", id}}, "claude" + all + " --resume " + id + " --permission-mode=default"},
		{"the same command resumed", claude.Options{Command: []string{"claude", "--session-id=" + id}, Session: id, Resume: true}, "claude" + all + " --resume " + id + " --permission-mode=default"},
		{"a permission policy", claude.Options{Command: []string{"claude"}, Session: id, Permission: &agent.Permission{}},
			"claude" + all + " --session-id " + id + " --permission-prompt-tool stdio --permission-mode=default"},
		{"a member", claude.Options{Command: []string{"claude"}, Session: id, Member: claude.Member{Name: "bob", Team: "T"}},
			"claude" + all + " --session-id " + id + " --agent-id bob@T --agent-name bob --team-name T --permission-mode=default"},
		{"a mode", claude.Options{Command: []string{"claude", "--model", "opus"}, Session: id, Mode: mode.Mode{
			Model: mode.Set("haiku"), PermissionMode: mode.Set("plan"), AppendSystemPrompt: mode.Set("-x"),
			FallbackModel: mode.Default[string](), AllowedTools: mode.Set([]string{"Read", "Bash(git log)"}), DisallowedTools: mode.Set([]string{})}},
			"claude" + all + " --session-id " + id + " --model=haiku --permission-mode=plan --append-system-prompt=-x --allowedTools=Read,Bash(git log)" + settings(tools) + " --disallowedTools=ExitPlanMode --system-prompt-snapshot off"},
		{"a permission mode wins", claude.Options{Command: []string{"claude", "--dangerously-skip-permissions"}, Session: id, Mode: mode.Mode{PermissionMode: mode.Set("acceptEdits")}},
			"claude" + all + " --session-id " + id + " --allow-dangerously-skip-permissions --permission-mode=acceptEdits"},
		{"plan mode without flags that void it", claude.Options{Command: []string{"claude", "--dangerously-skip-permissions", "--allow-dangerously-skip-permissions"}, Session: id, Mode: mode.Mode{PermissionMode: mode.Set("plan")}},
			"claude" + all + " --session-id " + id + " --permission-mode=plan" + settings(tools) + " --disallowedTools=ExitPlanMode"},
		{"plan mode of the command", claude.Options{Command: []string{"claude", "--permission-mode", "plan", "--allow-dangerously-skip-permissions"}, Session: id},
			"claude --permission-mode plan" + all + " --session-id " + id + settings(tools) + " --disallowedTools=ExitPlanMode"},
		{"plan mode, and a person is asked", claude.Options{Command: []string{"claude", "--permission-mode=plan"}, Session: id, Permission: asks},
			"claude --permission-mode=plan" + all + " --session-id " + id + " --permission-prompt-tool stdio" + settings(tools+",ExitPlanMode")},
		{"plan mode next to settings", claude.Options{Command: []string{"claude", "--permission-mode=plan", "--settings", "{}"}, Session: id, Permission: asks},
			"claude --permission-mode=plan --settings {}" + all + " --session-id " + id + " --permission-prompt-tool stdio --disallowedTools=ExitPlanMode," + tools},
		{"another mode than the command's plan", claude.Options{Command: []string{"claude", "--permission-mode=plan", "--dangerously-skip-permissions"}, Session: id, Mode: mode.Mode{PermissionMode: mode.Set("default")}},
			"claude" + all + " --session-id " + id + " --allow-dangerously-skip-permissions --permission-mode=default"},
		{"no permission mode", claude.Options{Command: []string{"claude", "--dangerously-skip-permissions"}, Session: id, Mode: mode.Mode{Model: mode.Set("opus")}},
			"claude --dangerously-skip-permissions" + all + " --session-id " + id + " --model=opus"},
		{"a fresh system prompt", claude.Options{Command: []string{"claude"}, Session: id, Resume: true, Mode: mode.Mode{CustomSystemPrompt: mode.Set("x")}},
			"claude" + all + " --resume " + id + " --system-prompt=x --permission-mode=default --system-prompt-snapshot off"},
		{"no system prompt", claude.Options{Command: []string{"claude"}, Session: id, Resume: true, Mode: mode.Mode{Model: mode.Set("opus")}},
			"claude" + all + " --resume " + id + " --model=opus --permission-mode=default"},
		{"an empty permission mode", claude.Options{Command: []string{"claude", "--permission-mode="}, Session: id}, "claude" + all + " --session-id " + id + " --permission-mode=default"},
		{"plain", claude.Options{Command: []string{"other", "-c"}, Plain: true}, "other -c"},

		{"nothing", claude.Options{}, ""},
		{"another session", claude.Options{Command: []string{"claude", "--resume", other}, Session: id}, ""},
		{"two sessions", claude.Options{Command: []string{"claude", "--session-id", id, "--resume", other}}, ""},
		{"resume without one", claude.Options{Command: []string{"claude", "--resume"}}, ""},
		{"resume of nothing", claude.Options{Command: []string{"claude"}, Resume: true}, ""},
		{"no uuid", claude.Options{Command: []string{"claude"}, Session: "x"}, ""},
		{"continue", claude.Options{Command: []string{"claude", "-c"}}, ""},
		{"fork", claude.Options{Command: []string{"claude", "--resume", id, "--fork-session"}}, ""},
		{"nothing kept", claude.Options{Command: []string{"claude", "--no-session-persistence"}}, ""},
		{"plan mode and no permissions", claude.Options{Command: []string{"claude", "--dangerously-skip-permissions", "--permission-mode", "plan"}}, ""},
		{"another format", claude.Options{Command: []string{"claude", "--output-format", "json"}}, ""},
		{"half a member", claude.Options{Command: []string{"claude"}, Member: claude.Member{Name: "bob"}}, ""},
		{"a rule like a flag", claude.Options{Command: []string{"claude"}, Mode: mode.Mode{AllowedTools: mode.Set([]string{"--x"})}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			before := strings.Join(test.options.Command, " ")
			argv, session, err := test.options.Argv()
			if test.want == "" {
				if !errors.Is(err, claude.ErrInvalid) {
					t.Fatalf("got %q, %v, want ErrInvalid", argv, err)
				}
				return
			}
			must(t, err)
			if diff := cmp.Diff(test.want, strings.Join(argv, " ")); diff != "" {
				t.Errorf("argv (-want +got):\n%s", diff)
			}
			if !test.options.Plain && session != id {
				t.Errorf("session: got %s, want %s", session, id)
			}
			if now := strings.Join(test.options.Command, " "); now != before {
				t.Errorf("the command was changed to %q", now)
			}
		})
	}
	_, a, _ := claude.Options{Command: []string{"claude"}}.Argv()
	_, b, _ := claude.Options{Command: []string{"claude"}}.Argv()
	if a == "" || a == b {
		t.Errorf("new sessions: got %q and %q, want two", a, b)
	}
}

func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	m := func(s string) mode.Mode {
		mode, err := mode.Parse([]byte(s))
		must(t, err)
		return mode
	}
	for _, test := range []struct {
		from, to string
		want     bool
		flags    string
	}{
		{from: `{}`, to: `{}`},
		{from: `{}`, to: `{"model":"haiku","permissionMode":"acceptEdits"}`},
		{from: `{}`, to: `{"permissionMode":"plan"}`, want: true},
		{from: `{"permissionMode":"plan"}`, to: `{"permissionMode":"default"}`, want: true},
		{from: `{}`, to: `{"permissionMode":"default"}`, want: true, flags: "--permission-mode plan"},
		{from: `{}`, to: `{"permissionMode":"plan"}`, flags: "--permission-mode=plan"},
		{from: `{"model":"haiku"}`, to: `{"model":"opus"}`},
		{from: `{"model":"haiku"}`, to: `{"model":null}`, want: true},
		{from: `{"permissionMode":"acceptEdits"}`, to: `{}`, want: true},
		{from: `{}`, to: `{"fallbackModel":null}`},
		{from: `{}`, to: `{"appendSystemPrompt":"x"}`, want: true},
		{from: `{"allowedTools":["a"]}`, to: `{"allowedTools":["a"]}`},
		{from: `{"allowedTools":["a"]}`, to: `{"allowedTools":["b"]}`, want: true},
	} {
		o := claude.Options{Command: append([]string{"claude"}, strings.Fields(test.flags)...)}
		if got := o.NeedsRestart(m(test.from), m(test.to)); got != test.want {
			t.Errorf("%s %s to %s: got %t, want %t", test.flags, test.from, test.to, got, test.want)
		}
	}
}

// A setting for which the command has a flag is removed from the mode.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	all := mode.Mode{
		PermissionMode: mode.Set("plan"), Model: mode.Default[string](), FallbackModel: mode.Set("f"),
		CustomSystemPrompt: mode.Set("c"), AppendSystemPrompt: mode.Set("a"),
		AllowedTools: mode.Set([]string{"Read"}), DisallowedTools: mode.Set([]string{"Edit"}),
	}
	for flag, want := range map[string]string{
		"--verbose":                      all.String(),
		"--model=x":                      `{"allowedTools":["Read"],"appendSystemPrompt":"a","customSystemPrompt":"c","disallowedTools":["Edit"],"fallbackModel":"f","permissionMode":"plan"}`,
		"--dangerously-skip-permissions": `{"allowedTools":["Read"],"appendSystemPrompt":"a","customSystemPrompt":"c","disallowedTools":["Edit"],"fallbackModel":"f","model":null}`,
		"--permission-mode --fallback-model --system-prompt --append-system-prompt --allowed-tools --disallowedTools": `{"model":null}`,
	} {
		o := claude.Options{Command: append([]string{"claude"}, strings.Fields(flag)...)}
		if got := o.Unnamed(all).String(); got != want {
			t.Errorf("%s: %s, want %s", flag, got, want)
		}
	}
	if got := (claude.Options{}).Unnamed(all); got != all {
		t.Errorf("no command: %s", got)
	}
}

// Flags reset the settings that a resumed process would otherwise keep from its conversation.
func TestDefaultOfAResumedSession(t *testing.T) {
	t.Parallel()
	back := mode.Mode{Model: mode.Default[string](), PermissionMode: mode.Default[string](), CustomSystemPrompt: mode.Default[string]()}
	for _, tc := range []struct {
		flags  string
		resume bool
		want   string
	}{
		{"", true, " --model default --permission-mode=default --system-prompt-snapshot off"},
		{"", false, " --permission-mode=default --system-prompt-snapshot off"},
		{" --model=opus --dangerously-skip-permissions", true, " --system-prompt-snapshot off"},
	} {
		o := claude.Options{
			Command: strings.Fields("claude" + tc.flags), Mode: back, Resume: tc.resume,
			Session: "aaaaaaaa-0000-4000-8000-000000000000",
		}
		argv, _, err := o.Argv()
		must(t, err)
		_, got, _ := strings.Cut(strings.Join(argv, " "), o.Session)
		if got != tc.want {
			t.Errorf("%+v: %q behind the session, want %q", tc, got, tc.want)
		}
	}
}
