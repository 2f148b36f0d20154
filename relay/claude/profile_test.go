package claude_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/mode"
	"teambridge/relay/profile"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// putProfile writes the profile "reviewer" below a directory, with lines of front matter and a prompt.
func putProfile(t testing.TB, dir, prompt string, lines ...string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "agents", "any.md")
	text := "---\nname: reviewer\ndescription: Reviews changes\n" + strings.Join(append(lines, "---", prompt), "\n")
	must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	return path
}

func TestArgvOfAProfile(t *testing.T) {
	t.Parallel()
	const session = "aaaaaaaa-0000-4000-8000-000000000000"
	work, root := t.TempDir(), t.TempDir()
	for _, test := range []struct {
		name    string
		lines   []string
		options claude.Options
		want    string // after the session; "" if it is refused
	}{
		{"by the flag alone", []string{"tools: Read", "model: opus"}, claude.Options{}, "--session-id S --agent reviewer --system-prompt-snapshot off"},
		{"the prompt is read again", []string{"model: opus"}, claude.Options{Resume: true},
			"--resume S --agent reviewer --system-prompt-snapshot off"},
		{"the model of the conversation does not stay", nil, claude.Options{Resume: true}, "--resume S --agent reviewer --model default --system-prompt-snapshot off"},
		{"the default model is that of the profile", []string{"model: opus"}, claude.Options{Resume: true, Mode: mode.Mode{Model: mode.Default[string]()}},
			"--resume S --agent reviewer --system-prompt-snapshot off"},
		{"the mode goes before the profile", []string{"model: opus"}, claude.Options{Resume: true, Mode: mode.Mode{Model: mode.Set("haiku")}},
			"--resume S --agent reviewer --model=haiku --system-prompt-snapshot off"},

		{"another agent in the command", nil, claude.Options{Command: []string{"claude", "--agent", "other"}}, ""},
		{"agents in the command", nil, claude.Options{Command: []string{"claude", "--agents={}"}}, ""},
		{"another program", nil, claude.Options{Plain: true}, ""},
		{"no such profile", nil, claude.Options{Profile: profile.Ref{Name: "other"}}, ""},
		{"a profile that cannot be used", []string{"tools: 7"}, claude.Options{}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			putProfile(t, filepath.Join(work, ".claude"), "You review.", test.lines...)
			o := test.options
			o.Session = session
			if o.Command == nil {
				o.Command = []string{"claude"}
			}
			if o.Profile.Name == "" {
				o.Profile.Name = "reviewer"
			}
			o.Profile.Dir, o.Profile.Root = work, root
			argv, _, err := o.Argv()
			_, got, _ := strings.Cut(strings.Join(argv, " "), "--replay-user-messages ")
			got = strings.Replace(got, " --permission-mode=default", "", 1)
			got = strings.ReplaceAll(got, session, "S")
			if (err == nil) != (test.want != "") || got != test.want {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

// killedForProfile sends a message to an agent that does not know its profile.
func killedForProfile(t *testing.T, o claude.Options) {
	t.Helper()
	p := start(t, o)
	send(t, p, frame(t, "hello"))
	widened, ok := errors.AsType[*agent.WidenedError](p.Wait(within(t)))
	if !ok || widened.Profile != "reviewer" {
		t.Errorf("ended with %v, want that its profile is missing", p.Wait(within(t)))
	}
}

// If Claude Code does not find the profile of an agent, it runs the agent without one: with all tools.
func TestProfileThatIsNotLoaded(t *testing.T) {
	t.Parallel()
	o, root := sim(t, simchild.Script{})
	o.Profile = profile.Ref{Name: "reviewer", Dir: t.TempDir(), Root: root}
	putProfile(t, filepath.Join(o.Profile.Dir, ".claude"), "You review.")
	killedForProfile(t, o) // it works elsewhere

	putProfile(t, filepath.Join(o.Dir, ".claude"), "You review.")
	o.Session = uuid.NewString()
	p := start(t, o)
	f := frame(t, "hello")
	send(t, p, f)
	reaches(t, p, f, agent.Done)
}

func TestRealProfileThatIsNotLoaded(t *testing.T) {
	some(t, func(t *testing.T, v teams.Version) {
		h := standin.NewHome(t, nil)
		o := withProfile(real(t, v, h), h)
		putProfile(t, filepath.Join(h.Work, ".claude"), "You review.")
		o.Command = append(o.Command, "--setting-sources", "user")
		killedForProfile(t, o)
	})
}

func withProfile(o claude.Options, h *standin.Home) claude.Options {
	o.Profile = profile.Ref{Name: "reviewer", Dir: h.Work, Root: h.Root}
	return o
}

// asked is the last call of the model in a conversation, with its tools sorted.
func asked(t testing.TB, api *standin.API) standin.Request {
	t.Helper()
	for _, r := range slices.Backward(api.Log()) {
		if !r.Side {
			// The placeholder for tools that are loaded later.
			r.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(name string) bool { return name == "DeferredToolPlaceholder" })
			slices.Sort(r.Tools)
			return r
		}
	}
	t.Fatal("the model was not asked")
	return standin.Request{}
}

// A profile applies from the first turn on. A resumed session uses its present content.
func TestRealProfile(t *testing.T) {
	some(t, func(t *testing.T, v teams.Version) {
		h := standin.NewHome(t, nil)
		o := withProfile(real(t, v, h), h)
		o.Member = claude.Member{Name: "worker", Team: "myteam"}
		turn := func(prompt string, haiku bool, tools ...string) {
			t.Helper()
			p := start(t, o)
			f := frame(t, "hello")
			send(t, p, f)
			reaches(t, p, f, agent.Done)
			exits0(t, p)
			r := asked(t, h.API)
			if !strings.Contains(r.System, prompt) || strings.Count(r.System, "PROMPT") != 1 {
				t.Errorf("system prompt: got %.300q…, want %q in it", r.System, prompt)
			}
			if strings.Contains(r.Model, "haiku") != haiku {
				t.Errorf("model: got %s", r.Model)
			}
			if !slices.Equal(r.Tools, tools) {
				t.Errorf("tools: got %q, want %q", r.Tools, tools)
			}
			o.Resume = true
		}
		putProfile(t, h.Root, "PROMPT of the user")
		path := putProfile(t, filepath.Join(h.Work, ".claude"), "PROMPT one", "tools: Read, SendMessage, Grep", "model: haiku")
		turn("PROMPT one", true, "Grep", "Read", "SendMessage")
		turn("PROMPT one", true, "Grep", "Read", "SendMessage")
		putProfile(t, filepath.Join(h.Work, ".claude"), "PROMPT two", "tools: [Read, Write]")
		turn("PROMPT two", false, "Read", "Write")

		must(t, errors.Join(os.Remove(path), os.RemoveAll(filepath.Join(h.Root, "agents"))))
		_, err := claude.Start(t.Context(), o)
		missing, ok := errors.AsType[*profile.NotFoundError](err)
		if !ok || !slices.Contains(missing.Dirs, filepath.Join(h.Root, "agents")) {
			t.Errorf("start without the profile: %v", err)
		}
	})
}

// The flag works without teambridge.
func TestRealAgentFlag(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		h := standin.NewHome(t, nil)
		putProfile(t, h.Root, "PROMPT of the user")
		putProfile(t, filepath.Join(h.Work, ".claude"), "PROMPT far", "tools: Read")
		h.Work = filepath.Join(h.Work, "a", "b")
		must(t, os.MkdirAll(h.Work, 0o700))
		ask := func(name string, args ...string) standin.Request {
			t.Helper()
			p := standin.StartHeadless(t, v, h, append([]string{"--agent", name}, args...)...)
			must(t, p.Prompt(within(t), "hello"))
			must(t, p.End(within(t)))
			return asked(t, h.API)
		}
		if r := ask("reviewer"); !strings.Contains(r.System, "PROMPT far") || !slices.Equal(r.Tools, []string{"Read"}) {
			t.Errorf("of a directory above: got system prompt %.200q…, tools %q", r.System, r.Tools)
		}
		if r := ask("reviewer", "--tools", "Read,Grep"); slices.Contains(r.Tools, "Bash") {
			t.Errorf("--tools: got %q", r.Tools)
		}
		putProfile(t, filepath.Join(h.Work, ".claude"), "PROMPT near")
		if r := ask("reviewer"); !strings.Contains(r.System, "PROMPT near") {
			t.Errorf("of two: got system prompt %.200q…", r.System)
		}
		for _, name := range []string{"any", "Reviewer", "other"} {
			if r := ask(name); strings.Contains(r.System, "PROMPT") || !slices.Contains(r.Tools, "Bash") {
				t.Errorf("%s: got system prompt %.200q…, tools %q; want those of no agent", name, r.System, r.Tools)
			}
		}
	})
}
