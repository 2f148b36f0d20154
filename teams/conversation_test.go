package teams

import (
	"fmt"
	"testing"
	"time"

	"teambridge/teams/transcript"
)

// given is a record of this version in which a model was given a text.
func given(version string, n int, sidechain bool, text string) string {
	return fmt.Sprintf(`{"type":"user","uuid":"%d","isSidechain":%v,"version":%q,"timestamp":"2026-11-20T10:00:%02d.000Z","agentName":"bob","teamName":"t","message":{"content":%q}}`+"\n",
		n, sidechain, version, n, text)
}

func block(attributes, text string) string {
	return "<teammate-message " + attributes + ">\n" + text + "\n</teammate-message>"
}

// Given reports whether the model of an agent in a pane was given a message, and nothing if the agent's version is
// too old.
func TestConversationGiven(t *testing.T) {
	t.Parallel()
	escaped := block(`teammate_id="a&lt;b" summary="&quot;c&quot;"`, `<\/teammate-message>`)
	for name, tc := range map[string]struct {
		version, record     string
		from, summary, text string
		want                bool
	}{
		"given":                                  {"2.1.329", escaped, "a<b", `"c"`, "</teammate-message>", true},
		"by the oldest":                          {"2.1.257", escaped, "a<b", `"c"`, "</teammate-message>", true},
		"no version":                             {"x", escaped, "a<b", `"c"`, "</teammate-message>", true},
		"too old":                                {"2.1.256", escaped, "a<b", `"c"`, "</teammate-message>", false},
		"another summary":                        {"2.1.329", escaped, "a<b", "", "</teammate-message>", false},
		"no summary is shown":                    {"2.1.329", block(`teammate_id="ann"`, "text"), "ann", "c", "text", false},
		"from one whose name only looks escaped": {"2.1.329", escaped, "a&lt;b", `&quot;c&quot;`, `<\/teammate-message>`, false},
	} {
		p, team, c := mixed(t, "2.1.329", "", "", "")
		m, _ := c.Member("bob")
		p.write("projects/"+transcript.Slug(m.Cwd)+"/b.jsonl", given(tc.version, 5, false, tc.record)+given("2.1.329", 6, false, "x"))
		conversation := team.Agent(c, "bob").Conversation(time.Time{})
		if _, found := conversation.Read(); !found {
			t.Fatalf("%s: there is no transcript", name)
		}
		got := conversation.Given(tc.from, tc.summary, tc.text)
		if len(got) > 1 || (len(got) == 1) != tc.want || tc.want && got[0].Second() != 5 {
			t.Errorf("%s: given at %v", name, got)
		}
	}
}

// A conversation is read once for all callers, from the earliest time that one of them needs.
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
