package page_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"teambridge/relay/relaytest/simagent"
)

// The list of teams and members works in a real browser.
func TestPeople(t *testing.T) {
	browser := launch(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, context.Context)
	}{
		{"teams", testTeams},
		{"long names", testLongNames},
		{"search", testSearch},
		{"places", testPlaces},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, browser)
		})
	}
}

// addTeam makes another team in a Claude directory, with agents that do not run.
func addTeam(t *testing.T, claude, cwd string, age time.Duration, process simagent.Process, members ...string) *simagent.Team {
	t.Helper()
	now := time.Now().Add(-age)
	opts := simagent.TeamOptions{Root: claude, Cwd: cwd, Process: process, Now: func() time.Time { return now }}
	for _, name := range members {
		opts.Members = append(opts.Members, simagent.Member{Name: name, Absent: true})
	}
	team, err := simagent.Create(t.Context(), opts)
	must(t, err)
	return team
}

// teamOf returns an expression for the head of a team in the list.
func teamOf(name string) string {
	return fmt.Sprintf(`document.querySelector('button[data-team=%q]')`, name)
}

// Teams are named by their directories, those that need the reader come first, and ended ones
// are folded below. A link to a member shows its row.
func testTeams(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	now, err := simagent.CurrentProcess()
	must(t, err)
	dead := now
	dead.Start = "1" // the pid is another process's now
	// All are at work, and the newest are above.
	teams := map[string]*simagent.Team{}
	for i, cwd := range []string{"/home/ada/docs", "/home/ada/web", "/home/ada/app", "/srv/app"} {
		teams[cwd] = addTeam(t, claude, cwd, time.Duration(i+1)*20*time.Second, now, "helper")
	}
	over := addTeam(t, claude, "/home/ada/app", 0, dead, "helper", "worker")
	w := newWorld(t, claude)
	w.Send(teams["/home/ada/docs"].Name(), "helper", "user", "for you")
	w.Send(teams["/home/ada/docs"].Name(), "reviewer", "user", "for you, too")

	p := open(t, browser, w, w.address())
	p.live()
	p.until(`[...document.querySelectorAll("nav > .teams .team-name")].map(e => e.textContent).join() === "docs,lighthouse,web,ada/app,srv/app"`)
	docs := teamOf(teams["/home/ada/docs"].Name())
	p.until(docs + `.querySelector(".badge")?.firstChild.textContent === "2" && document.querySelector(".to-home .badge") !== null`)
	if got, want := value[string](p, teamOf(sim.Name())+`.title`), sim.Name()+"\n/home/ada/projects/lighthouse"; got != want {
		t.Errorf("the title is %q, want %q", got, want)
	}
	folded := `document.querySelector(".over button").getAttribute("aria-expanded") === "false" && document.querySelectorAll(".over .team").length === 0`
	p.until(folded + ` && document.querySelector(".over .team-name").textContent === "Ended"`)
	if n := value[int](p, `document.querySelectorAll("nav button[aria-expanded=true]").length`); n != 0 {
		t.Errorf("%d of 5 teams are open", n)
	}
	p.picture("people")

	// A link unfolds the team of its row, also an ended one.
	p.size(1280, 300)
	in := `(e => { const r = e.getBoundingClientRect(), n = document.querySelector("nav").getBoundingClientRect(); return r.top >= n.top && r.bottom <= n.bottom; })(document.querySelector("a.member[aria-current=page]"))`
	for _, team := range []string{sim.Name(), over.Name()} {
		p.run(do(`location.hash = "#/team/" + ` + quote(team) + ` + "/worker"`))
		p.until(teamOf(team)+`?.getAttribute("aria-expanded") === "true" && document.querySelector("a.member[aria-current=page]")?.hash === %s && `+in, "#/team/"+team+"/worker")
	}
	p.size(1280, 800)
	p.until(`document.querySelector(".over .about").textContent === "The team's lead is not running." && document.querySelector(".over .word").textContent === "ended" &&
		document.querySelector(".over a.member[data-word]").title.includes("the team's lead is not running")`)
	p.picture("people-ended")
	p.run(do(`document.querySelector(".over button").click()`))
	p.until(folded)

	// A draft is marked in the list, except for the open conversation.
	p.run(do(`location.hash = "#/team/" + ` + quote(sim.Name()) + ` + "/worker"`))
	p.until(`document.querySelector("#talk-title")?.firstChild.textContent === "worker"`)
	p.run(chromedp.SendKeys(chromedp.CSS("#text"), "not yet"))
	p.run(do(`location.hash = "#/team/" + ` + quote(sim.Name())))
	p.until(`document.querySelector('a.member[href$="/worker"] .draft')?.textContent === "Draft"`)
	p.run(do(`location.hash = "#/team/" + ` + quote(sim.Name()) + ` + "/worker"`))
	p.until(`document.querySelector(".draft") === null && document.querySelector("#text").value === "not yet"`)
}

// Long names do not break the layout, and are whole in their titles.
func testLongNames(t *testing.T, browser context.Context) {
	claude, _ := simulate(t, simagent.Member{Name: "worker", Absent: true})
	long := "a-member-with-a-name-as-long-as-names-of-members-can-be-which-is-64"
	team := addTeam(t, claude, "/home/ada/projects/a-directory-with-quite-a-long-name-for-an-experiment-of-2026", 0, simagent.Process{}, long[:60], "b")
	w := newWorld(t, claude)
	for i := range 120 {
		w.Send(team.Name(), long[:60], "user", fmt.Sprintf("message %d", i))
	}
	p := open(t, browser, w, w.address())
	p.live()
	for _, width := range []int64{1440, 390} {
		p.size(width, 840)
		for _, hash := range []string{"#/", "#/teams", "#/team/" + team.Name() + "/" + long[:60]} {
			p.run(do(`location.hash = ` + quote(hash)))
			p.until(`document.querySelector("main h1") !== null && location.hash === %s`, hash)
			if value[bool](p, `document.scrollingElement.scrollWidth > innerWidth || [...document.querySelectorAll("nav, nav a, nav button, main, .head")].some(e => e.checkVisibility() && e.scrollWidth > e.clientWidth)`) {
				t.Errorf("%s is too wide for %d", hash, width)
			}
			p.picture(fmt.Sprintf("long-%d-%d", width, len(hash)))
		}
	}
}

// A search can be narrowed by team, sender, receiver and day. A hit has the time of its message.
func testSearch(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true}, simagent.Member{Name: "reviewer", Absent: true})
	other := addTeam(t, claude, "/home/ada/web", time.Minute, simagent.Process{}, "worker")
	sent := time.Now().Add(-50 * time.Hour)
	row := fmt.Sprintf(`[{"from":"reviewer","text":"the oldest lamp","timestamp":%q,"read":false}]`, sent.UTC().Format("2006-01-02T15:04:05.000Z"))
	must(t, os.WriteFile(sim.Agent("worker").Inbox(), []byte(row), 0o600))
	w := newWorld(t, claude)
	w.Send(sim.Name(), "team-lead", "worker", "a lamp")
	w.Send(sim.Name(), "worker", "reviewer", "the same lamp")
	w.Send(other.Name(), "team-lead", "worker", "another lamp")
	for team, text := range map[string]string{sim.Name(): "the same lamp", other.Name(): "another lamp"} {
		w.recorded(team, text)
	}
	p := open(t, browser, w, w.address())
	p.live()
	p.run(chromedp.SendKeys(chromedp.CSS("#words"), "lamp"))
	found := func(want ...string) {
		t.Helper()
		p.until(`[...document.querySelectorAll(".snippet")].map(e => e.textContent).sort().join("; ") === %s`, strings.Join(want, "; "))
	}
	found("a lamp", "another lamp", "the oldest lamp", "the same lamp")
	if got, want := value[string](p, `[...document.querySelectorAll(".hit")].find(e => e.textContent.includes("oldest")).querySelector("time").dateTime`), sent.UTC().Format("2006-01-02T15:04:05.000Z"); got != want {
		t.Errorf("a message of %s is shown as of %s", want, got)
	}
	if got := value[[]string](p, `[...new Set([...document.querySelectorAll(".hit-team")].map(e => e.textContent))].sort()`); !slices.Equal(got, []string{"lighthouse", "web"}) {
		t.Errorf("the teams are %q", got)
	}
	p.picture("search-all")
	pick := func(label, value string) {
		t.Helper()
		p.run(do(fmt.Sprintf(`(e => { e.focus(); e.value = %q; e.dispatchEvent(new Event("change")); })(document.querySelector('.filters [aria-label=%q]'))`, value, label)))
	}
	pick("Team", sim.Name())
	found("a lamp", "the oldest lamp", "the same lamp")
	p.focused(`e.getAttribute("aria-label") === "Team"`)
	pick("To", "worker")
	found("a lamp", "the oldest lamp")
	pick("From", "reviewer")
	found("the oldest lamp")
	p.picture("search-filters")
	p.run(chromedp.Reload()) // the URL has the filters
	p.live()
	found("the oldest lamp")
	pick("Up to this day", "2020-01-01")
	p.until(`document.querySelector(".count").textContent === "No messages match lamp with these filters"`)
	p.run(do(`[...document.querySelectorAll(".filters button")].at(-1).click()`))
	found("a lamp", "another lamp", "the oldest lamp", "the same lamp")
	pick("From this day on", time.Now().Format(time.DateOnly))
	found("a lamp", "another lamp", "the same lamp")
	pick("From this day on", time.Now().AddDate(0, 0, 1).Format(time.DateOnly))
	p.until(`document.querySelectorAll(".hit").length === 0 && document.querySelector(".count").textContent.startsWith("No messages")`)
	p.size(390, 840)
	pick("From this day on", "")
	found("a lamp", "another lamp", "the oldest lamp", "the same lamp")
	if over := value[int](p, `Math.max(document.scrollingElement.scrollWidth - innerWidth, (e => e.scrollWidth - e.clientWidth)(document.querySelector(".scroll")))`); over > 0 {
		t.Errorf("the search is %d pixels too wide for 390", over)
	}
	p.picture("search-390")
}
