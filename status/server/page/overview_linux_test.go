package page_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/link"
	"teambridge/relay/relaytest/simagent"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams/errtest"
)

var must = errtest.Must

// EnvAgents is the number of agents that TestCrowd makes. Unset, they are few.
const EnvAgents = "TEAMBRIDGE_PAGE_AGENTS"

// said is a row of an inbox, some time before now.
type said struct {
	from, to, text, summary string
	ago                     time.Duration
	unread                  bool
}

// record writes rows into the inboxes of a team, and into the journal in their order.
func (w *world) record(team string, rows ...said) {
	w.t.Helper()
	ctx := w.t.Context()
	c, err := w.Team(team).Config(ctx)
	must(w.t, err)
	j, err := journal.Open(ctx, filepath.Join(w.State, "journal.db"))
	must(w.t, err)
	defer j.Close()
	slices.SortStableFunc(rows, func(a, b said) int { return int(b.ago - a.ago) })
	boxes := map[string][]json.RawMessage{}
	for n, r := range rows {
		at := time.Now().Add(-r.ago)
		member, _ := c.Member(r.from) // for its color
		raw, err := json.Marshal(map[string]any{
			"from": r.from, "text": r.text, "summary": r.summary, "timestamp": at.UTC().Format("2006-01-02T15:04:05.000Z"), "color": member.Color,
			"msg_id": fmt.Sprintf("r%d", n), "read": !r.unread,
		})
		must(w.t, err)
		boxes[r.to] = append(boxes[r.to], raw)
		data, err := json.Marshal(boxes[r.to])
		must(w.t, err)
		rows, err := inbox.Parse(data)
		if err == nil {
			_, err = j.Messages.Observe(ctx, journal.Snapshot{InboxKey: inbox.Key(w.Root.Path(), c.Instance(), r.to), Rows: rows, At: at, Done: at})
		}
		if err = errors.Join(err, os.MkdirAll(w.Path(team, "inboxes"), 0o700), os.WriteFile(w.Path(team, "inboxes", r.to+".json"), data, 0o600)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// thirty makes 30 agents in six projects, one of which is on another machine. The service is not started yet.
func thirty(t *testing.T) *world {
	t.Helper()
	claude := filepath.Join(t.TempDir(), "claude")
	now, err := simagent.CurrentProcess()
	must(t, err)
	type project struct {
		cwd     string
		members []string
		rows    []said
	}
	const minute = time.Minute
	json := func(text string, args ...any) string { return fmt.Sprintf(text, args...) }
	idle := func(who string, ago time.Duration) said {
		return said{from: who, to: "team-lead", text: json(`{"type":"idle_notification","from":%q,"idleReason":"available"}`, who), ago: ago}
	}
	told := func(who, what string, ago time.Duration) said {
		return said{from: "team-lead", to: who, text: what + ". Tell me when it is done.", summary: what, ago: ago}
	}
	works := func(who, to string, ago time.Duration) said {
		return said{from: who, to: to, text: "I have begun, and will tell you.", ago: ago}
	}
	projects := []project{
		{"/home/ada/projects/checkout", []string{"backend", "frontend", "database", "tester"}, []said{
			told("backend", "Limit the retries of payments", 4*minute), works("backend", "team-lead", 3*minute),
			told("frontend", "Keep the cart of a signed-out user", 40*minute), {from: "frontend", to: "user", text: "Shall the cart be kept for 30 days, or until the browser is closed?", summary: "how long?", ago: 6 * minute, unread: true},
			told("database", "Add an index for open orders", 5*minute), works("database", "team-lead", 2*minute), told("tester", "Run the suite", 30*minute), idle("tester", 20*minute)}},
		{"/home/ada/projects/search", []string{"indexer", "ranker", "reviewer", "docs"}, []said{
			told("indexer", "Index the changed pages alone", 4*minute), works("indexer", "team-lead", minute),
			told("docs", "Describe the query language", 80*minute), idle("docs", 70*minute)}},
		{"/home/ada/projects/mobile", []string{"ios", "android", "design", "release"}, []said{
			told("ios", "Move to the new build system", 3*minute), works("ios", "team-lead", 2*minute), told("android", "Move to the new build system", 3*minute),
			{from: "android", to: "team-lead", text: `{"type":"permission_request","request_id":"perm-1-abcdefg","agent_id":"android","tool_name":"Bash","tool_use_id":"t1","description":"delete the build directory","input":{"command":"rm -r build"},"permission_suggestions":[]}`, ago: 2 * minute},
			told("design", "Dark colors for the login", 50*minute), idle("design", 45*minute), told("release", "Prepare the notes", 90*minute), idle("release", 80*minute)}},
		{"/home/ada/projects/billing", []string{"invoices", "tax", "ledger", "auditor"}, []said{
			told("invoices", "Round each line, not the sum", 4*minute), works("invoices", "team-lead", minute), told("tax", "Rates of 2027", 25*minute), idle("tax", 22*minute),
			told("ledger", "Close the year", 3*minute), works("ledger", "team-lead", 3*minute), told("auditor", "Look for gaps in the numbers", 15*minute), idle("auditor", 9*minute)}},
		{"/home/ada/projects/website", []string{"writer", "editor", "images", "links"}, []said{
			told("writer", "The page about prices", 2*minute), works("writer", "editor", minute), told("images", "Smaller pictures", 35*minute), idle("images", 30*minute),
			{from: "links", to: "team-lead", text: `{"type":"shutdown_approved","requestId":"s","from":"links"}`, ago: 5 * minute}}},
	}
	loop := []said{}
	for n := range 20 { // of two who thank each other
		from, to := "ranker", "reviewer"
		if n%2 == 1 {
			from, to = to, from
		}
		loop = append(loop, said{from: from, to: to, text: "Thank you! Looks good to me.", ago: 4*minute - time.Duration(n)*10*time.Second})
	}
	projects[1].rows = append(projects[1].rows, loop...)
	var names []string
	for n, p := range projects {
		names = append(names, addTeam(t, claude, p.cwd, time.Duration(2+n)*time.Hour, now, p.members...).Name())
	}
	w := prepare(t, claude)
	for n, p := range projects {
		w.record(names[n], p.rows...)
	}
	l, err := ledger.Open(t.Context(), filepath.Join(w.State, "ledger.db"))
	must(t, err)
	defer l.Close()
	there := link.Presence{Version: 1, Instance: "i", Ledger: "l", Teams: []link.Team{{Team: "nightly", Members: []link.Member{
		{Member: "conductor", Word: api.WordIdle, Lead: true, Since: time.Now().Add(-20 * minute)}, {Member: "builder", Word: api.WordWorking, Since: time.Now().Add(-9 * minute), Waits: api.WaitsSilent, WaitsSince: time.Now().Add(-8 * minute)},
		{Member: "signer", Word: api.WordWaiting, Why: "permission prompt", Since: time.Now().Add(-minute)}, {Member: "packer", Word: api.WordIdle, Since: time.Now().Add(-12 * minute)},
		{Member: "uploader", Word: api.WordBlocked, Why: "its relay is dead", Since: time.Now().Add(-30 * minute)},
	}}}}
	data, err := jsonOf(there)
	if err == nil {
		err = l.Links.AddMachine(t.Context(), "forge", "card", false)
	}
	if err == nil {
		_, err = l.Links.HeardFrom(t.Context(), "forge", "i", data)
	}
	must(t, err)
	// The test may take longer than link.Away, after which a machine that says nothing counts as away.
	c, err := sqlite.OpenConn(filepath.Join(w.State, "ledger.db"), sqlite.OpenReadWrite)
	must(t, err)
	later := time.Now().Add(time.Hour).UnixMicro()
	must(t, errors.Join(sqlitex.ExecuteTransient(c, "UPDATE machines SET heard=?", &sqlitex.ExecOptions{Args: []any{later}}), c.Close()))
	return w
}

func jsonOf(v any) ([]byte, error) { return json.Marshal(v) }

// rowOf returns an expression for the row of an agent.
func rowOf(member string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".agent")].find(e => e.querySelector("b").textContent === %q)`, member)
}

// listed is an expression for the sections, as "section: member member; …", in the order of the page.
const listed = `[...document.querySelectorAll(".agents-section")].filter(e => !e.hidden).map(e => e.dataset.section + ":" + [...e.querySelectorAll(".agent b")].map(b => " " + b.textContent).join("")).join("; ")`

// Home lists each of thirty agents once, in the section that the service chose.
func TestOverview(t *testing.T) {
	script, err := os.ReadFile(standin.RequireAxe(t))
	must(t, err)
	browser := launch(t)
	w := thirty(t)
	w.start()
	t.Cleanup(w.end)
	p := open(t, browser, w, w.address())
	p.live()
	p.until(`document.querySelectorAll(".agent").length === 29 && document.querySelector("h1").textContent === "Overview"`)
	all := value[string](p, listed)
	sections := map[string][]string{}
	for _, text := range strings.Split(all, "; ") {
		section, members, _ := strings.Cut(text, ":")
		sections[section] = slices.DeleteFunc(strings.Fields(members), func(m string) bool { return m == "team-lead" }) // of five
	}
	for section, want := range map[string]string{
		api.SectionNeedsYou: "android frontend signer", api.SectionStuck: "builder ranker reviewer uploader", api.SectionEnded: "",
		api.SectionWorking: "backend database indexer invoices ios ledger writer",
	} {
		got := slices.Clone(sections[section])
		if slices.Sort(got); strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", section, got, want)
		}
	}
	if !strings.HasPrefix(all, "needs-you: frontend android signer; stuck: uploader ") {
		t.Errorf("what has waited longest is not first: %s", all)
	}
	for member, want := range map[string][]string{
		"backend": {"Working", "team-lead: Limit the retries of payments", "Changes"}, "frontend": {"frontend: how long?: Shall the cart be kept", "Answer"}, "android": {"Asks its lead to use Bash: delete the build directory", "Answer it at the terminal of team-lead"},
		"ranker": {"Ranker and reviewer only answer each other: 19 times within 10 minutes", "Ask", "Dismiss"}, "signer": {"Waiting for you: permission prompt", "forge"}, "uploader": {"Blocked: its relay is dead"}, "builder": {"Working: nothing new has come from it", "forge"},
	} {
		for _, part := range want {
			p.until(rowOf(member)+`.textContent.includes(%s)`, part)
		}
	}
	if text := value[string](p, `document.querySelector("main").innerText`); strings.Contains(text, "teambridge ") || strings.Contains(text, "±") {
		t.Errorf("the page tells a person to type a command, or has a sign for a word:\n%s", text)
	}
	// The API has the same sections, in the snapshot and for each team.
	teams, err := w.client().Teams(t.Context())
	must(t, err)
	for _, team := range teams {
		list, err := w.client().Status(t.Context(), team.Team)
		must(t, err)
		for _, s := range list {
			if s.Member != "team-lead" && s.Section != api.SectionEnded && !slices.Contains(sections[s.Section], s.Member) {
				t.Errorf("%s is %s for the API", s.Member, s.Section)
			}
		}
	}
	p.picture("overview")

	// By project or by team; the page remembers it.
	headings := `[...document.querySelectorAll(".agents-section[data-section=idle] h3")].map(e => e.textContent).sort().join()`
	p.until(headings + ` === "billing,checkout,mobile,on forge,search,website"`)
	p.run(do(`[...document.querySelectorAll(".agents-by button")].find(b => b.textContent === "By team").click()`))
	p.until(`document.querySelector(".agents-by [aria-pressed=true]").textContent === "By team" && ` + headings + `.includes("nightly@forge")`)
	p.run(chromedp.Reload())
	p.live()
	p.until(headings + `.includes("nightly@forge")`)
	p.run(do(`document.querySelector(".agents-by button").click()`))
	p.until(headings + `.includes("on forge")`)

	// Ended agents are folded.
	p.run(do(`document.querySelector(".agents-section[data-section=ended] button").click()`))
	p.until(rowOf("links") + ` !== undefined`)
	p.run(do(`document.querySelector(".agents-section[data-section=ended] button").click()`))
	p.until(rowOf("links") + ` === undefined`)

	// "Ask" opens an agent to write to it.
	p.run(do(rowOf("ranker") + `.querySelector(".need-acts a").click()`))
	p.until(`document.querySelector("#talk-title")?.firstChild.textContent === "ranker" && document.activeElement.id === "text"`)
	p.run(do(`location.hash = "#/"`))
	p.until(rowOf("ranker") + ` !== undefined`)

	// With the keyboard: filter, go to a row, open it.
	p.key("/")
	p.focused(`e.classList.contains("agents-filter")`)
	p.run(chromedp.KeyEvent("mobile"))
	p.until(listed + ` === "needs-you: android; working: team-lead ios; idle: design release"`)
	p.run(do(`document.activeElement.select()`), chromedp.KeyEvent("retries"))
	p.until(listed + ` === "working: backend"`)
	p.run(do(`document.activeElement.select()`), chromedp.KeyEvent("nobody at all"))
	p.until(`document.querySelector(".agents-none").textContent === "No agent matches."`)
	p.run(do(`document.activeElement.select()`), chromedp.KeyEvent("checkout"))
	p.until(`document.querySelectorAll(".agent").length === 5`)
	p.key(kb.Escape)
	p.key("j")
	p.focused(`e.matches("[data-row]") && e.querySelector("b").textContent === "frontend"`)
	p.key("j")
	p.focused(`e.matches("[data-row]") && e.querySelector("b").textContent === "team-lead"`)
	p.key("k")
	p.focused(`e.querySelector("b").textContent === "frontend"`)
	p.key(kb.Enter)
	p.until(`location.hash.endsWith("/frontend") && document.querySelector("#talk-title")?.firstChild.textContent === "frontend"`)
	p.run(do(`location.hash = "#/"`))
	p.until(`document.querySelector(".agents-filter")?.value === "checkout"`)
	p.run(do(`document.querySelector(".agents-filter").value = ""; document.querySelector(".agents-filter").dispatchEvent(new Event("input"))`))

	// A change of one agent redraws its row, and no other. Times are updated in each.
	p.until(`document.querySelectorAll(".agent").length === 29`)
	p.run(do(`window.painted = new Set(); new MutationObserver((all) => { for (const m of all) { const e = m.target.closest ? m.target : m.target.parentElement, row = e?.closest(".agent"); if (row && !e.closest("time")) painted.add(row.querySelector("b").textContent); } })
		.observe(document.querySelector(".agents"), {subtree: true, childList: true, characterData: true, attributes: true})`))
	w.Send(teamAt(teams, "checkout"), "team-lead", "tester", "Run the slow suite, too")
	p.until(rowOf("tester") + `.querySelector(".said").textContent === "Run the slow suite, too"`)
	painted := value[[]string](p, `[...painted]`)
	for _, member := range painted {
		if member != "tester" && member != "team-lead" { // the sender
			t.Errorf("%s was painted again", painted)
			break
		}
	}

	// On any screen, without faults of accessibility.
	p.run(do(string(script)))
	for _, width := range []int64{1440, 390} {
		p.size(width, 900)
		p.picture(fmt.Sprintf("overview-%d", width))
		for _, theme := range []string{"light", "dark"} {
			p.theme(theme)
			for _, fault := range p.axeOf("minor") {
				t.Errorf("%d wide, %s: %s", width, theme, fault)
			}
			for _, low := range value[[]string](p, contrasts) {
				t.Errorf("%d wide, %s: %s", width, theme, low)
			}
		}
		for _, over := range value[[]string](p, `[document.documentElement, ...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > innerWidth && e.checkVisibility() && !e.closest(".unseen")).map(e => e.outerHTML.slice(0, 90))`) {
			t.Errorf("%d wide: %s is cut off", width, over)
		}
		for _, over := range value[[]string](p, `[...document.querySelectorAll(".need")].filter(n => n.checkVisibility() && n.querySelector("time")?.getBoundingClientRect().right > n.querySelector(".need-acts button")?.getBoundingClientRect().left).map(n => n.innerText)`) {
			t.Errorf("%d wide: a button covers the time of %s", width, over)
		}
	}
	if low := value[float64](p, `Math.min(...[...document.querySelectorAll(".agent-line")].map(e => e.offsetHeight))`); low < 44 {
		t.Errorf("on a telephone, a row is %v px high", low)
	}
}

// teamAt returns the name of the team in a directory.
func teamAt(teams []api.Team, project string) string {
	return teams[slices.IndexFunc(teams, func(t api.Team) bool { return strings.HasSuffix(t.Cwd, "/"+project) })].Team
}
