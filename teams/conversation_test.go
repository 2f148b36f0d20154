package teams

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/teams/transcript"
)

// given is a record in which a model was given a text, by that version.
func given(version string, n int, sidechain bool, text string) string {
	return fmt.Sprintf(`{"type":"user","uuid":"%d","isSidechain":%v,"version":%q,"timestamp":"2026-11-20T10:00:%02d.000Z","agentName":"bob","teamName":"t","message":{"content":%q}}`+"\n",
		n, sidechain, version, n, text)
}

func block(attributes, text string) string {
	return "<teammate-message " + attributes + ">\n" + text + "\n</teammate-message>"
}

// What a version says of a message to an agent in a pane: whether it was given it, and
// whether nothing else can look like it.
func TestConversationGiven(t *testing.T) {
	t.Parallel()
	escaped, plain := block(`teammate_id="a&lt;b" summary="&quot;c&quot;"`, `<\/teammate-message>`), block(`teammate_id="a<b" summary=""c""`, "text")
	for name, tc := range map[string]struct {
		version, record     string
		from, summary, text string
		want                string
	}{
		"old":                          {"2.1.80", plain, "a<b", `"c"`, "text", "unsure"},
		"old, another summary":         {"2.1.80", plain, "a<b", `c`, "text", ""},
		"old, and no summary is shown": {"2.1.80", block(`teammate_id="ann"`, "text"), "ann", "c", "text", "unsure, any summary"},
		"new":                          {"2.1.329", escaped, "a<b", `"c"`, "</teammate-message>", "sure"},
		"new, another summary":         {"2.1.329", escaped, "a<b", "", "</teammate-message>", ""},
		"new, and no summary is shown": {"2.1.329", block(`teammate_id="ann"`, "text"), "ann", "c", "text", ""},
		"new, from one whose name only looks escaped": {"2.1.329", escaped, "a&lt;b", `&quot;c&quot;`, `<\/teammate-message>`, ""},
		"old, from one whose name only looks escaped": {"2.1.80", escaped, "a<b", `"c"`, "</teammate-message>", ""},
		"between":    {"2.1.165", block(`teammate_id="ann" summary="c"`, "text"), "ann", "c", "text", "unsure"},
		"no version": {"x", block(`teammate_id="ann" summary="c"`, "text"), "ann", "c", "text", "unsure"},
	} {
		p, team, c := mixed(t, "2.1.329", "", "", "")
		m, _ := c.Member("bob")
		p.write("projects/"+transcript.Slug(m.Cwd)+"/b.jsonl", given(tc.version, 5, false, tc.record)+given("2.1.329", 6, false, "x"))
		conversation := team.Agent(c, "bob").Conversation(time.Time{})
		if _, found := conversation.Read(); !found {
			t.Fatalf("%s: there is no transcript", name)
		}
		got := ""
		for _, g := range conversation.Given(tc.from, tc.summary, tc.text) {
			got = map[bool]string{true: "sure", false: "unsure"}[g.Sure]
			if g.AnySummary {
				got += ", any summary"
			}
			if g.At.Second() != 5 || !g.Alone {
				t.Errorf("%s: %+v", name, g)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// An old teammate in the lead's process has a transcript for each wake-up, with copies, and
// gets what "user" writes without a wrapper. Its prompt identifies it, if no other has the same.
func TestConversationOfAnOldTeammate(t *testing.T) {
	t.Parallel()
	p, team, c := mixed(t, "2.1.80", "", "", "")
	lead, _ := c.Lead()
	folder := "projects/" + transcript.Slug(lead.Cwd) + "/" + leadSession + "/subagents/"
	for i := range c.Members {
		c.Members[i].Prompt = Secret("you are " + c.Members[i].Name)
	}
	first := given("2.1.80", 1, true, block(`teammate_id="team-lead" summary="x"`, "you are worker"))
	second := given("2.1.80", 2, true, "hello")
	write := func(file string, records ...string) {
		p.write(folder+file+".meta.json", `{"agentType":"general-purpose"}`)
		p.write(folder+file+".jsonl", strings.Join(records, ""))
	}
	write("agent-a1", first, second)
	write("agent-a2", first, second, given("2.1.80", 3, true, "hello"))
	write("agent-a3", strings.Replace(first, "you are worker", "you are other", 1), given("2.1.80", 4, true, "hello"))
	conversation := team.Agent(c, "worker").Conversation(time.Time{})
	conversation.Read()
	var at []int
	for _, g := range conversation.Given("user", "", "hello") {
		at = append(at, g.At.Second())
	}
	if !slices.Equal(at, []int{2, 3}) {
		t.Errorf("given at %v", at)
	}
	if list := conversation.Given("ann", "", "hello"); len(list) > 0 {
		t.Errorf("from another: %+v", list)
	}
	for i := range c.Members {
		c.Members[i].Prompt = "the same"
	}
	if _, found := team.Agent(c, "worker").Conversation(time.Time{}).Read(); found {
		t.Error("it cannot be told from another with the same prompt")
	}
}

// Agents are read once, whoever asks, and from the earliest time that was asked for.
func TestConversationsAreShared(t *testing.T) {
	t.Parallel()
	p, team, c := mixed(t, "2.1.329", "", "", "")
	m, _ := c.Member("bob")
	p.write("projects/"+transcript.Slug(m.Cwd)+"/b.jsonl", given("2.1.329", 5, false, block(`teammate_id="ann"`, "hello")))
	at := time.Date(2026, 11, 20, 10, 0, 6, 0, time.UTC)
	var all Conversations
	late := all.Of(team.Agent(c, "bob"), at)
	late.Read()
	if n := len(late.Given("ann", "", "hello")); n != 0 {
		t.Errorf("given %d times since %v", n, at)
	}
	early := all.Of(team.Agent(c, "bob"), at.Add(-time.Second))
	early.Read()
	if n := len(late.Given("ann", "", "hello")); n != 1 || early != late {
		t.Errorf("given %d times; the same: %v", n, early == late)
	}
	if all.Of(team.Agent(c, "worker"), at) == late {
		t.Error("two agents share a conversation")
	}
}
