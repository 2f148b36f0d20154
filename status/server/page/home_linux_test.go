package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"teambridge/relay"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/relaytest/simsession"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/status/server"
	"teambridge/teams"
)

func TestMain(m *testing.M) {
	simchild.MainTerminal()
	simsession.Main() // does not return in a session
	simchild.Main()   // does not return in an agent
	os.Exit(m.Run())
}

// The page answers the items that wait for a person.
func TestHome(t *testing.T) {
	browser := launch(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, context.Context)
	}{
		{"permission", testPermission},
		{"what tools are called with", testAskedTools},
		{"questions and plans", testQuestions},
		{"refused", testRefused},
		{"a long question", testLongQuestion},
		{"rows", testRows},
		{"quiet", testQuiet},
		{"write", testWrite},
		{"notifications", testNotifications},
		{"controls", testControls},
		{"axe", testCardsAxe},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, browser)
		})
	}
}

const house = "lighthouse"

// asker is a service whose relays run simulated agents, and the page of it.
type asker struct {
	*tab
	w      *world
	state  string            // of the agents
	relays map[string]string // ids by member
}

// newAsker starts agents that ask as members of a team, and opens the page.
func newAsker(t *testing.T, browser context.Context, script simchild.Script, members ...string) *asker {
	t.Helper()
	claude, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	if script.State == "" {
		script.State = claude
	}
	w := newWorld(t, claude, func(o *server.Options) { o.Env = append(os.Environ(), script.Env(), "GORACE=atexit_sleep_ms=0") })
	w.Make(house, time.Now().UnixMilli(), "team-lead", "worker", "reviewer")
	a := &asker{w: w, state: script.State, relays: map[string]string{}}
	for _, m := range members {
		a.add(m)
	}
	a.tab = open(t, browser, w, w.address())
	a.live()
	return a
}

func (a *asker) add(member string) {
	a.w.t.Helper()
	e, err := a.w.client().AddRelay(a.w.t.Context(), api.NewRelay{
		Team: house, Member: member, Command: []string{simchild.Program()}, Dir: a.state, Permissions: "ask",
	})
	must(a.w.t, err)
	a.relays[member] = e.ID
}

// say sends a prompt to an agent.
func (a *asker) say(member, text string) {
	a.w.t.Helper()
	if _, err := a.w.client().Send(a.w.t.Context(), house, member, "", api.NewMessage{Text: text}); err != nil {
		a.w.t.Fatal(err)
	}
}

// asks makes an agent ask for a tool with an input.
func (a *asker) asks(member, tool string, input any) {
	a.w.t.Helper()
	text := "ASK:" + tool
	if input != nil {
		data, err := json.Marshal(input)
		must(a.w.t, err)
		text += " " + string(data)
	}
	a.say(member, text)
}

// told waits until an agent's turn has ended with an answer.
func (a *asker) told(text string) {
	a.w.t.Helper()
	for end := time.Now().Add(patience); ; {
		for _, r := range a.w.messages(a.w.client(), house) {
			if r.Answer != nil && strings.Contains(r.Text, text) {
				return
			}
		}
		if time.Now().After(end) {
			a.w.t.Fatalf("no agent was told %q", text)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// row puts a row of any kind into an inbox, as the agents' own program does.
func (a *asker) row(from, to, text string) {
	a.w.t.Helper()
	path := a.w.Path(house, "inboxes", to+".json")
	data, err := os.ReadFile(path)
	rows := []any{}
	if err == nil {
		err = json.Unmarshal(data, &rows)
	} else if os.IsNotExist(err) {
		err = nil
	}
	if err == nil {
		data, err = json.Marshal(append(rows, map[string]any{"from": from, "text": text, "timestamp": time.Now().UTC().Format(time.RFC3339Nano), "read": false}))
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	must(a.w.t, err)
}

// question returns the open question of a member.
func (a *asker) question(member string) api.Question {
	a.w.t.Helper()
	list, err := a.w.client().Relays(a.w.t.Context(), house)
	must(a.w.t, err)
	for _, r := range list {
		if r.ID == a.relays[member] && len(r.Questions) > 0 {
			return r.Questions[0]
		}
	}
	a.w.t.Fatalf("%s asks nothing: %+v", member, list)
	return api.Question{}
}

// card returns an expression for the card with a text.
func card(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".ask")].find(e => e.textContent.includes(%s))`, quote(text))
}

// press returns a step that presses a button of a card by the keyboard.
func press(card, act string) step {
	return do(fmt.Sprintf(`%s.querySelector("[data-act=%s]").click()`, card, act))
}

// tabTo moves the focus with the keyboard until an expression is true.
func tabTo(p *tab, there string) {
	p.t.Helper()
	for range 20 {
		p.run(chromedp.KeyEvent("\t"))
		if value[bool](p, there) {
			return
		}
	}
	p.t.Fatalf("%s cannot be reached with the keyboard", there)
}

// A request for permission is a card, on Home and in the conversation, and is answered once.
func testPermission(t *testing.T, browser context.Context) {
	a := newAsker(t, browser, simchild.Script{}, "lead", "worker")
	a.until(`document.querySelector(".asks").childElementCount === 0 && document.title === "teambridge"`)
	a.asks("lead", "Bash", map[string]any{"command": "rm -r build\n<b>\u202eevil", "description": "clean up", "timeout": 600})
	first := card("rm -r build")
	a.until(first + ` !== undefined && document.title === "(1) teambridge" && document.querySelector("a.to-home .badge").firstChild.data === "1"`)
	if got := value[string](a.tab, first+`.querySelector(".ask-code").textContent`); got != "rm -r build\n<b>\\u202eevil" {
		t.Errorf("the command is shown as %q", got)
	}
	for _, want := range []string{"team-lead wants to use Bash", "clean up", "timeout", "600", "Allow for this session", "Bash commands like echo *"} {
		if got := value[string](a.tab, first+`.textContent`); !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	a.asks("worker", "Bash", nil)
	second := card("echo hi")
	a.until(second + ` !== undefined && document.title === "(2) teambridge"`)
	a.picture("home-permission")
	a.size(390, 844)
	a.picture("home-permission-narrow")
	if value[bool](a.tab, `document.querySelector(".home .column").scrollWidth > document.querySelector(".home .scroll").clientWidth`) {
		t.Error("a card is wider than the window")
	}
	a.size(1440, 900)
	a.picture("home-permission-wide")

	// A double click sends once, and does not answer the next question.
	a.run(do(`window.sent = 0; const real = fetch; window.fetch = (u, o) => { if (o?.method === "POST" && String(u).includes("/v1/questions/")) sent++; return real(u, o); }`))
	a.run(do(first + `.focus()`))
	tabTo(a.tab, `document.activeElement.dataset.act === "allow"`) // it can be done from the keyboard
	a.run(do(`{ const b = document.activeElement; b.click(); b.click(); }`))
	a.told("allowed")
	a.until(first + ` === undefined && document.title === "(1) teambridge"`)
	a.until(`document.activeElement === ` + second) // the focus goes on
	if n := value[int](a.tab, `window.sent`); n != 1 {
		t.Errorf("a double click sent %d answers", n)
	}
	// A click that was meant for an earlier card in the same place is ignored.
	a.run(do(`window.now = performance.now; performance.now = () => 0`), do(`location.hash = "#/teams"`))
	a.until(`document.querySelector(".ask [data-act=deny]") !== null`)
	a.run(do(`performance.now = () => 399; document.querySelector(".ask [data-act=deny]").dispatchEvent(new MouseEvent("click", { detail: 1 }))`))
	if !value[bool](a.tab, `document.querySelector(".ask textarea") === null`) {
		t.Error("a click on a card that has just moved does something")
	}
	a.run(do(`performance.now = () => 401; document.querySelector(".ask [data-act=deny]").dispatchEvent(new MouseEvent("click", { detail: 1 }))`))
	a.until(`document.activeElement === document.querySelector(".ask textarea")`)
	a.run(do(`performance.now = window.now`), chromedp.KeyEvent("\u001b"))
	a.until(`document.activeElement.dataset.act === "deny"`)

	// The same card is in the conversation, where a draft stays.
	a.choose("worker")
	a.until(`document.querySelector(".foot .ask") !== null`)
	a.run(press(`document.querySelector(".foot .ask")`, "deny"))
	a.until(`document.activeElement.tagName === "TEXTAREA" && document.activeElement.closest(".ask") !== null`)
	a.run(chromedp.KeyEvent("not on Fridays"))
	a.picture("ask-in-conversation")
	a.size(390, 844)
	a.picture("ask-in-conversation-narrow")
	a.size(1280, 800)
	a.asks("lead", "Bash", nil) // a snapshot comes meanwhile
	a.until(`document.title.startsWith("(2)")`)
	if got := value[string](a.tab, `document.querySelector(".foot .ask textarea").value`); got != "not on Fridays" {
		t.Errorf("the reason is now %q", got)
	}
	a.run(chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	a.told("denied: not on Fridays")
	a.until(`document.querySelector(".foot .ask") === null && document.activeElement.id === "text"`)

	// The rule for the session is sent as it was offered.
	a.choose("team-lead")
	a.until(`document.querySelector(".foot .ask") !== null`)
	a.run(press(`document.querySelector(".foot .ask")`, "session"))
	a.told(`allowed, with [{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"echo *"}],"behavior":"allow","destination":"session"}]`)
}

// Cards show all arguments of a tool, and edits as lines.
func testAskedTools(t *testing.T, browser context.Context) {
	a := newAsker(t, browser, simchild.Script{}, "lead")
	long := strings.Repeat("a-very-long-word", 40)
	for _, c := range []struct {
		tool  string
		input map[string]any
		want  []string // in the text of the card
		lines string   // of the changes
	}{
		{"Edit", map[string]any{"file_path": "/home/ada/lamp.go", "old_string": "one\ntwo\nthree", "new_string": "one\n2\nthree", "replace_all": true},
			[]string{"/home/ada/lamp.go", "+1", "−1", "replace_all", "true"}, " one,-two,+2, three"},
		{"MultiEdit", map[string]any{"file_path": "/home/ada/lamp.go", "edits": []any{map[string]any{"old_string": "a", "new_string": "b"}, map[string]any{"old_string": "c", "new_string": "c\n", "replace_all": true}}},
			[]string{"replace_all"}, "-a,+b, c,+"},
		{"Write", map[string]any{"file_path": "/home/ada/" + long, "content": "<script>pwned=1</script>\n" + long}, []string{long, "+2"}, "+<script>pwned=1</script>,+" + long},
		{"WebFetch", map[string]any{"url": "https://example.org/x", "prompt": "read\nit", "more": map[string]any{"deep": []int{1}}}, []string{"https://example.org/x", "read\nit", `"deep"`}, ""},
		{"Edit", map[string]any{"file_path": "/home/ada/lamp.go", "old_string": 1, "new_string": "b"}, []string{"old_string", "1", "new_string", "b"}, ""},
	} {
		a.asks("lead", c.tool, c.input)
		a.until(`document.querySelector(".ask") !== null`)
		got := value[string](a.tab, `document.querySelector(".ask").textContent`)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %q", c.tool, want, got)
			}
		}
		lines := value[string](a.tab, `[...document.querySelectorAll(".diff-line")].map(e => e.querySelector(".sign").textContent + e.querySelector("code").textContent).join()`)
		if lines != c.lines {
			t.Errorf("%s: the lines are %q, want %q", c.tool, lines, c.lines)
		}
		a.picture("ask-" + c.tool)
		a.size(390, 844)
		if value[bool](a.tab, `document.documentElement.scrollWidth > innerWidth || document.querySelector(".ask").scrollWidth > innerWidth`) {
			t.Errorf("%s: the card is wider than a narrow window", c.tool)
		}
		a.picture("ask-" + c.tool + "-narrow")
		a.size(1280, 800)
		a.run(press(`document.querySelector(".ask")`, "allow"))
		a.until(`document.querySelector(".ask") === null`)
	}
	if value[bool](a.tab, `window.pwned !== undefined`) {
		t.Error("a text was run")
	}
}

// An agent's questions are answered by a choice or a text, and its plan is shown as Markdown.
func testQuestions(t *testing.T, browser context.Context) {
	a := newAsker(t, browser, simchild.Script{}, "lead")
	option := func(label, description string) map[string]any {
		return map[string]any{"label": label, "description": description}
	}
	a.asks("lead", "AskUserQuestion", map[string]any{"questions": []any{
		map[string]any{"question": "Which lamp?", "header": "Lamp", "multiSelect": false, "options": []any{option("LED", "bright"), option("Gas", "quaint")}},
		map[string]any{"question": "Which sides?", "header": "Sides", "multiSelect": true, "options": []any{option("Sea", ""), option("Land", ""), option("Sky", "")}},
		map[string]any{"question": "What name?", "header": "Name", "options": []any{}},
	}})
	a.until(`document.querySelectorAll(".ask fieldset").length === 3`)
	a.picture("ask-question")
	a.size(390, 844)
	a.picture("ask-question-narrow")
	a.size(1440, 900)
	a.picture("ask-question-wide")
	a.run(press(`document.querySelector(".ask")`, "allow"))
	a.until(`document.querySelector(".ask-note").textContent === "Answer each question first." && document.activeElement.value === "LED"`)
	a.run(chromedp.KeyEvent(" "))
	a.run(do(`[...document.querySelectorAll(".ask [type=checkbox]")].filter(b => b.value !== "Land").forEach(b => b.click())`))
	a.run(do(`document.querySelectorAll(".ask-other")[2].focus()`), chromedp.KeyEvent("Eddy, stone"))
	a.run(press(`document.querySelector(".ask")`, "allow"))
	a.told("allowed, answered map[What name?:Eddy, stone Which lamp?:LED Which sides?:Sea, Sky]")

	const plan = "# A new lamp\n\n1. buy it\n2. **mount** it\n\n| part | price |\n|---|---|\n| lens | 3 | by ship\n\n```go main.go\nfunc shine() {}\n```\n<script>pwned=1</script> [shop](https://shop.example/lens 'open late')"
	a.asks("lead", "ExitPlanMode", map[string]any{"plan": plan,
		"planFilePath": "/home/ada/plan.md", "allowedPrompts": []any{map[string]any{"tool": "Bash", "prompt": "run the tests"}}})
	a.until(`document.querySelector(".ask-plan .rich strong")?.textContent === "mount"`)
	for _, want := range []string{"asks you to approve its plan", "/home/ada/plan.md", "Approving also allows:", "Bash: run the tests", "<script>pwned=1</script>", "by ship", "go main.go", `(shop.example/… "open late")`} {
		if got := value[string](a.tab, `document.querySelector(".ask").textContent`); !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	a.picture("ask-plan")
	a.run(do(`document.querySelector(".ask-source summary").click()`))
	a.until(`document.querySelector(".ask-source[open] code").innerText === %s`, plan)
	a.picture("ask-plan-source")
	a.run(do(`document.querySelector(".ask-source summary").click()`))
	a.size(390, 844)
	a.picture("ask-plan-narrow")
	a.size(1440, 900)
	a.picture("ask-plan-wide")
	a.run(press(`document.querySelector(".ask")`, "deny"), chromedp.KeyEvent("cheaper, please"), press(`document.querySelector(".ask")`, "deny-now"))
	a.told("denied: cheaper, please")
	a.asks("lead", "ExitPlanMode", nil)
	a.until(`document.querySelector(".ask [data-act=allow]")?.textContent === "Approve the plan"`)
	a.run(press(`document.querySelector(".ask")`, "allow"))
	a.told("allowed")
}

// answer changes the body of an answer on its way.
func answer(t *testing.T, q api.Question, change func(*api.Permit)) func(fetch.RequestID) step {
	p := api.Permit{Question: q.ID, Digest: q.Digest, Allow: true}
	change(&p)
	data, err := json.Marshal(p)
	must(t, err)
	return func(id fetch.RequestID) step {
		return call(fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: id, PostData: data})
	}
}

// An answer that comes late, twice, or for another input is refused, and the card says so.
func testRefused(t *testing.T, browser context.Context) {
	a := newAsker(t, browser, simchild.Script{}, "lead")
	a.expect("409")
	a.expect("404")
	a.expect("422")
	note := func(want string) {
		t.Helper()
		a.until(`document.querySelector(".ask-note")?.textContent.startsWith(%s)`, want)
	}
	send := func(become func(fetch.RequestID) step) {
		t.Helper()
		hold := a.intercept("*/v1/questions/*", fetch.RequestStageRequest)
		a.run(press(`document.querySelector(".ask")`, "allow"))
		hold(become)
	}
	a.asks("lead", "Bash", nil)
	a.until(`document.querySelector(".ask") !== null`)
	q := a.question("lead")
	send(answer(t, q, func(p *api.Permit) { p.Digest = "of something else" }))
	note("The agent asks for something else now: its digest is not that of the question.")
	send(answer(t, q, func(p *api.Permit) { p.Session = "Bash(rm *)" }))
	note(`Not answered: "Bash(rm *)" is not one of the rules`)
	a.picture("ask-refused")
	if got := a.question("lead"); got.ID != q.ID {
		t.Error("a refused answer was an answer")
	}

	// Another one answers first.
	send(func(id fetch.RequestID) step {
		if _, err := a.w.client().Answer(t.Context(), q.ID, api.Permit{Question: q.ID, Digest: q.Digest, Reason: "no"}); err != nil {
			t.Error(err)
		}
		return call(fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: id})
	})
	note("Already answered: it was denied.")
	a.told("denied: no")
	a.until(`document.title === "teambridge" && document.querySelector(".ask").dataset.state === "closed"`)
	a.picture("ask-late")
	a.run(press(`document.querySelector(".ask")`, "dismiss"))
	a.until(`document.querySelector(".ask") === null`)

	// A question that no longer exists.
	a.asks("lead", "Bash", nil)
	a.until(`document.querySelector(".ask") !== null`)
	q = a.question("lead")
	unknown := value[string](a.tab, `location.origin`) + "/v1/questions/00000000-0000-4000-8000-000000000000"
	send(func(id fetch.RequestID) step {
		return call(fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: id, URL: unknown})
	})
	note("Not answered: there is no question")

	// It is withdrawn while the reader writes a reason.
	a.run(press(`document.querySelector(".ask")`, "deny"), chromedp.KeyEvent("because"))
	if _, err := a.w.client().Answer(t.Context(), q.ID, api.Permit{Question: q.ID, Digest: q.Digest, Allow: true}); err != nil {
		t.Fatal(err)
	}
	note("No longer asked")
	a.until(`document.activeElement.dataset.act === "dismiss"`)
	a.run(chromedp.KeyEvent("\r"))
	a.until(`document.querySelector(".ask") === null && document.activeElement.id === "view-title"`)
}

// A question that is too long for snapshots is requested.
func testLongQuestion(t *testing.T, browser context.Context) {
	a := newAsker(t, browser, simchild.Script{}, "lead")
	a.asks("lead", "Write", map[string]any{"file_path": "/home/ada/long.txt", "content": strings.Repeat("a line of a long file\n", 4000)})
	a.until(`document.querySelector(".ask-lines .rest")?.textContent.endsWith("of 4000 lines are not shown)") && document.querySelector(".ask [data-act=allow]") !== null`)
	if h := value[float64](a.tab, `document.querySelector(".ask").getBoundingClientRect().height`); h > 600 {
		t.Errorf("the card is %v px high", h)
	}
	a.picture("ask-long")
	a.run(do(`(() => { for (let more; (more = document.querySelector(".ask-lines .rest")); ) more.click(); })()`))
	a.until(`document.querySelectorAll(".diff-line").length === 4000 && document.activeElement.matches(".ask-lines")`)
	a.run(press(`document.querySelector(".ask")`, "allow"))
	a.told("allowed")
}

// row returns an expression for the row of Home with a text.
func row(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".need")].find(e => (e.closest(".agent") ?? e).textContent.includes(%s))`, quote(text))
}

// Messages and problems are rows, which link to their conversations.
func testRows(t *testing.T, browser context.Context) {
	a := newAsker(t, browser, simchild.Script{Refuse: []string{"acceptEdits"}}, "lead")
	a.w.Send(house, "worker", "user", "The lens is **cracked**.")
	a.until(row("The lens is") + `?.querySelector("a").getAttribute("href") === "#/team/lighthouse/worker"`)
	a.row("reviewer", "team-lead", `{"type":"permission_request","request_id":"perm-1-abcdefg","agent_id":"reviewer@lighthouse","tool_name":"Bash","tool_use_id":"t1","description":"touch it","input":{"command":"touch it"},"permission_suggestions":[]}`)
	a.until(row("Asks its lead to use Bash") + `?.querySelector("button") === null`)
	if _, err := a.w.client().Send(t.Context(), house, "lead", "", api.NewMessage{Text: "[with more rights]", Mode: json.RawMessage(`{"permissionMode":"acceptEdits"}`)}); err != nil {
		t.Fatal(err)
	}
	failed := row("A message failed")
	a.until(failed + ` !== undefined`)
	a.picture("home-rows")
	a.size(390, 844)
	a.picture("home-rows-narrow")
	a.size(1440, 900)
	a.picture("home-rows-wide")
	since := value[string](a.tab, failed+`.querySelector("time").dateTime`)
	a.choose("team-lead")
	retry := `[...document.querySelectorAll(".controls button")].find(b => b.textContent === "Send 1 failed again" && !b.hidden)`
	a.until(retry + ` !== undefined`)
	a.picture("controls-failed")
	a.run(do(retry + `.click()`))
	a.until(`document.querySelector(".control-note").textContent === "Sending again."`)
	a.run(do(`location.hash = "#/"`))
	a.until(failed+` !== undefined && `+failed+`.querySelector("time").dateTime !== %s`, since) // it is refused again
	a.run(do(failed + `.querySelector("[data-act=drop]").click()`))
	a.until(failed + ` === undefined`)

	// Items that cannot be resolved are dismissed.
	rested := row("All agents are idle")
	for _, member := range []string{"worker", "reviewer"} {
		a.row(member, "team-lead", fmt.Sprintf(`{"type":"idle_notification","from":%q,"timestamp":%q,"idleReason":"available"}`, member, time.Now().UTC().Format(time.RFC3339Nano)))
	}
	a.until(rested + `?.querySelector("[data-act=dismiss]") !== undefined`)
	a.picture("home-idle")
	a.run(do(rested + `.querySelector("[data-act=dismiss]").click()`))
	a.until(rested + ` === undefined`)

	// Read messages are no longer there.
	a.run(do(row("The lens is") + `.querySelector("a").click()`))
	a.until(shown("The lens is"))
	a.run(do(`location.hash = "#/"`))
	a.until(`document.querySelector(".all-quiet") !== null && ` + row("The lens is") + ` === undefined`)
}

// If nothing waits, Home says so, and shows the states of agents.
func testQuiet(t *testing.T, browser context.Context) {
	a := newAsker(t, browser, simchild.Script{}, "lead")
	a.w.Send(house, "team-lead", "worker", "Please polish the lens.")
	a.until(`document.querySelector(".all-quiet h2")?.textContent === "All quiet" && document.querySelector(".agent .said")?.textContent === "Please polish the lens."`)
	a.picture("home-quiet")
	a.size(390, 844)
	a.picture("home-quiet-narrow")
}

// Home has a box to write to any agent, with completion of names. Its content survives a reload until it is
// sent.
func testWrite(t *testing.T, browser context.Context) {
	a := newAsker(t, browser, simchild.Script{})
	a.until(`document.querySelectorAll("#post-offers option").values().map(o => o.value).toArray().sort().join() === "reviewer · lighthouse,team-lead · lighthouse,worker · lighthouse"`)
	note := `document.querySelector(".post-note").textContent`
	a.key("c")
	a.focused(`e.matches(".post-to")`)
	a.run(chromedp.KeyEvent("nobody\r"))
	a.until(note + ` === "No agent has this name."`)
	a.run(do(`document.activeElement.select()`), chromedp.KeyEvent("worker\r"))
	a.focused(`e.matches(".post-text")`)
	a.picture("home-write")
	a.run(chromedp.KeyEvent("Polish the lens."), chromedp.Reload())
	a.until(`document.querySelector(".post-to")?.value === "worker" && document.querySelector(".post-text").value === "Polish the lens."`)
	a.until(`document.querySelectorAll("#post-offers option").length === 3`)
	a.run(do(`document.querySelector(".post-text").focus()`), chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	a.until(`location.hash === "#/team/lighthouse/worker" && ` + own("Polish the lens") + `?.textContent.startsWith("✓ sent")`)
	a.run(do(`location.hash = "#/"`))
	empty := `document.querySelector(".post-to")?.value === "" && document.querySelector(".post-text").value === ""`
	a.until(empty)
	a.run(chromedp.Reload())
	a.until(empty)
}

// stub replaces the notifications of the browser, which has no desktop.
const stub = `
	delete globalThis.SharedWorker; // so that the stream belongs to this tab
	window.shown = [];
	window.asked = 0;
	window.Notification = class {
		static permission = "default";
		static async requestPermission() { asked++; return this.permission = "granted"; }
		constructor(title, options) { Object.assign(this, { title, ...options }); shown.push(this); }
		close() { this.closed = true; }
	};
	window.sources = [];
	window.EventSource = class extends EventSource { constructor(...of) { super(...of); sources.push(this); } };
	window.hidden = (is) => Object.defineProperty(document, "visibilityState", { value: is ? "hidden" : "visible", configurable: true });`

// Only a button asks the browser for permission, and items that come while the page is hidden are notified once.
func testNotifications(t *testing.T, browser context.Context) {
	a := newAsker(t, browser, simchild.Script{}, "lead")
	a.expect("ERR_")
	a.run(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: stub}), chromedp.Reload())
	a.live()
	const control = `document.querySelector(".notices")`
	a.until(control + `?.textContent === "Turn on notifications"`)
	if n := value[int](a.tab, `asked`); n != 0 {
		t.Error("the browser is asked as soon as the page is loaded")
	}
	a.run(do(`hidden(true)`))
	a.asks("lead", "Bash", nil)
	a.until(`document.querySelector(".ask") !== null`)
	if n := value[int](a.tab, `window.shown.length`); n != 0 {
		t.Error("there is a notification without permission")
	}
	a.run(press(`document.querySelector(".ask")`, "allow"), do(control+`.click()`))
	a.until(control + `.textContent === "Notifications on" && asked === 1`)
	a.told("allowed")

	a.asks("lead", "Bash", map[string]any{"command": "secret"})
	a.until(`window.shown.length === 1 && shown[0].silent`)
	if got := value[string](a.tab, `shown[0].title + " in " + shown[0].body`); got != "team-lead wants to use Bash in lighthouse" {
		t.Errorf("it says %q", got)
	}
	const sound = `document.querySelector(".sound")`
	a.until(sound + `.textContent === "Sound off" && !` + sound + `.hidden`)
	a.run(do(sound + `.click()`))
	a.until(sound + `.textContent === "Sound on"`)
	a.w.Send(house, "worker", "user", "The lens is polished.")
	a.until(`window.shown.length === 2 && !shown[1].silent && shown[1].body === "The lens is polished." && shown[1].title === "worker in lighthouse"`)
	a.row("worker", "user", `{"type":"plan_approval_request","planContent":"secret"}`)
	a.until(`window.shown.length === 3 && shown[2].body === "plan"`)

	// Once, although there are more snapshots, the stream connects again, and a message comes
	// back into its inbox.
	polished := row("worker")
	a.until(polished + ` !== undefined`)
	a.run(do(`sources.at(-1).close(); sources.at(-1).onerror(); window.before = sources.length`))
	a.until(`sources.length > before`)
	a.live()
	inbox := a.w.Path(house, "inboxes", "user.json")
	rows, err := os.ReadFile(inbox)
	if err == nil {
		err = os.WriteFile(inbox, []byte("[]"), 0o600)
	}
	must(t, err)
	a.until(polished + ` === undefined`)
	must(t, os.WriteFile(inbox, rows, 0o600))
	a.until(polished + ` !== undefined`)
	a.w.Send(house, "reviewer", "user", "Mine too.")
	a.until(`shown.at(-1).body === "Mine too."`)
	if value[bool](a.tab, `shown.length !== 4 || shown.some(s => s.closed)`) {
		t.Errorf("the notifications are %s", value[string](a.tab, `JSON.stringify(shown)`))
	}
	a.run(press(`document.querySelector(".ask")`, "allow"))
	a.until(`shown[0].closed`) // the question is no longer open

	// A click opens the place; there are no notifications while the page is visible.
	a.run(do(`hidden(false); shown[1].onclick()`))
	a.until(`location.hash === "#/team/lighthouse/worker" && shown[1].closed`)
	n := value[int](a.tab, `shown.length`)
	a.w.Send(house, "reviewer", "user", "Seen at once.")
	a.until(`document.querySelector("#announcements").textContent.includes("Seen at once.")`)
	if got := value[int](a.tab, `shown.length`); got != n {
		t.Error("a notification while the page is visible")
	}
}

// A relayed agent is interrupted, started again and changed from its conversation.
func testControls(t *testing.T, browser context.Context) {
	a := newAsker(t, browser, simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Exit, Times: relay.MaxStarts}}}, "lead")
	a.expect("409")
	const button = `[...document.querySelectorAll(".controls button")].find(b => b.textContent === %q && !b.hidden)`
	interrupt, again := fmt.Sprintf(button, "Interrupt"), fmt.Sprintf(button, "Start again")
	const note = `document.querySelector(".control-note").textContent`
	a.choose("team-lead")
	a.until(`document.querySelector(".head").textContent.includes("relay dead") && ` + again + ` !== undefined && ` + interrupt + ` === undefined`)
	a.picture("controls-dead")
	a.run(do(`location.hash = "#/"`))
	a.until(row("The relay is dead") + `?.querySelector("[data-act=start]")?.textContent === "Start again"`)
	a.picture("home-dead")
	a.choose("team-lead")
	a.run(do(again + `.click()`))
	a.until(note + ` === "Starting again."`)
	a.until(`document.querySelector(".head").textContent.includes("relay idle") && ` + again + ` === undefined && ` + interrupt + ` === undefined`)
	a.write("TOOL:60")
	a.until(interrupt + ` !== undefined`)
	a.picture("controls-working")
	a.run(do(interrupt+`.focus()`), do(interrupt+`.click()`))
	a.until(note + ` === "Interrupted."`)
	a.until(`document.querySelector(".head").textContent.includes("relay idle")`)
	a.run(do(interrupt + `.click()`)) // it is there as long as it has the focus
	a.until(note + ` === "No turn is running."`)

	// The model and the permission mode apply from the next message on.
	a.run(do(`document.querySelector(".menu").open = true; document.querySelector(".menu input").focus()`), chromedp.KeyEvent("opus"))
	a.run(do(`{ const s = document.querySelector(".menu select"); s.value = "acceptEdits"; s.dispatchEvent(new Event("change")); }`))
	a.until(`document.querySelector(".menu summary").textContent === "opus · acceptEdits (next message)"`)
	a.picture("controls-menu")
	a.size(390, 844)
	a.picture("controls-menu-narrow")
	a.size(1280, 800)
	a.write("How are you?")
	a.told("ACK: How are you?")
	a.until(`document.querySelector(".menu summary").textContent === "opus · acceptEdits"`)
	list, err := a.w.client().Relays(t.Context(), house)
	if err != nil || len(list) != 1 || string(list[0].Settings) != `{"model":"opus","permissionMode":"acceptEdits"}` {
		t.Errorf("it works with %+v, %v", list, err)
	}

	a.choose("worker") // it has no relay
	a.until(`!document.querySelector(".controls").checkVisibility()`)
	add := api.NewRelay{Team: house, Member: "worker", Runtime: "opencode", URL: "http://127.0.0.1:1", Dir: t.TempDir()}
	if _, err := a.w.client().AddRelay(t.Context(), add); err != nil {
		t.Fatal(err)
	}
	a.until(`document.querySelector(".menu summary").textContent === "OpenCode · Default model" && document.querySelectorAll("#models option").length === 0`)
}

// axe-core finds no serious fault in cards, rows and controls.
func testCardsAxe(t *testing.T, browser context.Context) {
	script, err := os.ReadFile(standin.RequireAxe(t))
	must(t, err)
	a := newAsker(t, browser, simchild.Script{}, "lead", "worker", "reviewer")
	a.asks("lead", "Edit", map[string]any{"file_path": "/home/ada/lamp.go", "old_string": "one\ntwo", "new_string": "one\n2", "replace_all": true})
	a.asks("worker", "AskUserQuestion", map[string]any{"questions": []any{map[string]any{"question": "Which lamp?", "header": "Lamp", "options": []any{map[string]any{"label": "LED", "description": "bright"}}}}})
	a.asks("reviewer", "ExitPlanMode", map[string]any{"plan": "# Plan\n\n`code` and **more**", "allowedPrompts": []any{map[string]any{"tool": "Bash", "prompt": "run tests"}}})
	a.w.Send(house, "worker", "user", "A message.")
	a.until(`document.querySelectorAll(".ask").length === 3 && ` + row("A message.") + ` !== undefined`)
	a.run(do(string(script)), press(card("Which lamp?"), "deny"), press(card("lamp.go"), "allow"))
	a.asks("lead", "Bash", nil)
	a.until(card("echo hi") + ` !== undefined && ` + card("lamp.go") + ` === undefined`)
	check := func(name string) {
		t.Helper()
		for _, width := range []int64{1440, 390} {
			a.size(width, 900)
			for _, theme := range []string{"light", "dark"} {
				a.theme(theme)
				for _, fault := range a.axe() {
					t.Errorf("%s, %d wide, %s: %s", name, width, theme, fault)
				}
			}
			a.picture(fmt.Sprintf("axe-%s-%d", name, width))
		}
	}
	check("home")
	a.size(1440, 900)
	a.choose("team-lead")
	a.until(`document.querySelector(".foot .ask") !== null && document.querySelector(".controls").checkVisibility()`)
	a.run(do(`document.querySelector(".menu").open = true`))
	check("controls")
}

// A real agent asks on the page: an allowed call runs, and a denied one does not, and the model
// gets the reason.
func TestRealPermissionOnThePage(t *testing.T) {
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		command := standin.Require(t, v)
		browser := launch(t)
		home := standin.NewHome(t, standin.StartAPI(t, standin.Script))
		w := newWorld(t, home.Root, func(o *server.Options) { o.Env = home.Env() })
		w.Make(house, time.Now().UnixMilli(), "team-lead", "worker")
		p := open(t, browser, w, w.address())
		p.run(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: stub}), chromedp.Reload())
		p.live()
		p.run(do(`document.querySelector(".notices").click(); hidden(true)`))
		if _, err := w.client().AddRelay(t.Context(), api.NewRelay{Team: house, Member: "lead", Command: command, Dir: home.Work, Permissions: "ask"}); err != nil {
			t.Fatal(err)
		}
		ask := func(command string) {
			t.Helper()
			text := standin.CallLine("Bash", map[string]string{"command": command, "description": "d"})
			if _, err := w.client().Send(t.Context(), house, "lead", "", api.NewMessage{Text: text}); err != nil {
				t.Fatal(err)
			}
			p.until(card(command) + `?.querySelector("[data-act=allow]") !== undefined`)
		}
		made := func(name string) bool {
			_, err := os.Stat(filepath.Join(home.Work, name))
			return err == nil
		}
		told := func(text string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := home.API.Wait(ctx, func(r standin.Request) bool { return strings.Contains(strings.Join(r.Results, "\n"), text) }); err != nil {
				t.Fatalf("the model was not told %q: %v\n%s", text, err, home.API)
			}
		}
		ask("touch one && echo made-$((0+1))")
		p.until(`window.shown.length === 1 && shown[0].title === "team-lead wants to use Bash"`)
		p.picture("real-permission")
		if made("one") {
			t.Error("it ran before it was allowed")
		}
		p.run(press(card("touch one"), "allow"))
		told("made-1")
		p.until(`document.querySelector(".ask") === null`)
		if !made("one") {
			t.Error("what was allowed did not run")
		}
		ask("touch two")
		p.run(press(card("touch two"), "deny"), chromedp.KeyEvent("not on <Fridays>"), press(card("touch two"), "deny-now"))
		told("not on <Fridays>")
		if made("two") {
			t.Error("what was denied ran")
		}
		p.until(`document.querySelector(".ask") === null && window.shown.length === 2`)
	})
}
