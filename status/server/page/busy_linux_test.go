package page_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/simagent"
)

// busyMembers are the agents of the team that busy makes.
var busyMembers = []string{"backend", "frontend", "database", "reviewer", "tester", "docs", "security", "release", "performance", "accessibility-and-internationalization-specialist"}

// busyMessages is the number of messages that the team has exchanged, and busyUnread the number
// of them that the person, "operator", has not read.
const busyMessages, busyUnread = 300, 8

// busy makes a team of ten at work, with its history of the last two days: reports in
// Markdown, tasks, results, talk between agents, and messages to and from the person. The
// service is not started yet.
func busy(t *testing.T) (w *world, team string) {
	t.Helper()
	var members []simagent.Member
	for _, name := range busyMembers {
		members = append(members, simagent.Member{Name: name, Absent: true})
	}
	claude, sim := simulate(t, members...)
	w = prepare(t, claude)
	w.join(sim.Name())
	rows := make([]said, busyMessages)
	ago := 26 * time.Hour
	for n := range rows {
		rows[n] = busyMessage(n)
		ago -= []time.Duration{20 * time.Second, 9 * time.Minute, 50 * time.Second, 3 * time.Minute, 12 * time.Minute}[n%5]
		rows[n].ago, rows[n].unread = ago, rows[n].to == "operator" && n >= busyMessages-3*busyUnread
	}
	w.record(sim.Name(), rows...)
	return w, sim.Name()
}

// busyMessage returns the nth message. Of the last ones, each third is to the person.
func busyMessage(n int) said {
	from := busyMembers[n*7%len(busyMembers)]
	to := busyMembers[(n*7+1+n%4)%len(busyMembers)]
	m := func(to, summary, text string) said {
		return said{from: from, to: to, text: text, summary: summary}
	}
	protocol := func(to string, fields map[string]any) said {
		data, _ := json.Marshal(fields) // strings always can be
		return m(to, "", string(data))
	}
	switch {
	case n%3 == 2 && n >= busyMessages-3*busyUnread:
		return m("operator", "progress on the migration", fmt.Sprintf("Step %d of the **migration** is done: `orders` now has a partial index.\n\n- [x] index built\n- [x] old queries checked\n- [ ] dashboards", n))
	case n%17 == 3:
		return m("operator", "report", "## Result\nAll **418 tests** pass; the slowest are in `checkout`:\n\n| suite | tests | time |\n|---|---:|---:|\n| checkout | 112 | 38 s |\n| search | 96 | 12 s |\n| login | 210 | 9 s |\n\n"+
			"What is left:\n\n1. Delete the *old* endpoint.\n2. Update [the guide](https://docs.example/guide).\n\n> The old endpoint still gets 3 requests a day.\n\n"+strings.Repeat("The requests come from one client, which was told in May. ", 12))
	case n%13 == 5:
		return said{from: "operator", to: from, text: "Please look at `checkout.go` again: the **retry** is not limited."}
	case n%11 == 4:
		return m(to, "the failing query", "This is what I see:\n\n```sql\nSELECT id, total FROM orders WHERE customer_id = $1 AND state = 'open' ORDER BY created_at DESC LIMIT 50; -- 1.8 s, a sequential scan\n```\n\nCan you add an index?")
	case n%7 == 6:
		return protocol("team-lead", map[string]any{"type": "idle_notification", "from": from, "idleReason": "available", "summary": "[to " + to + "] the failing query"})
	case n%19 == 8:
		return protocol("team-lead", map[string]any{"type": "idle_notification", "from": from, "idleReason": "available", "result": "Done. I **removed** the old endpoint in `api/v1.go`, and 3 tests that used it."})
	case n%23 == 9:
		return protocol(to, map[string]any{"type": "task_assignment", "taskId": fmt.Sprint(n), "subject": "Measure the checkout under load", "description": "100 users, 10 minutes.", "assignedBy": "team-lead"})
	case n%5 == 1:
		return said{from: "team-lead", to: to, text: "Take the next task from the list, please.", summary: "next task"}
	}
	return m(to, "question", []string{
		"Is the cart of a signed-out user kept? I see two places that disagree: `cart.js` and `session.go`.",
		"Yes. It is kept for **30 days**, then deleted by the nightly job.",
		"Thanks. I will write a test for it.",
		"I need the new column before I can go on; is the migration on `main`?",
	}[n%4])
}

// A team at work is shown as a dense log: senders in the colors of members, and notices of agents
// in lines of their own. Nothing is wider than the window.
func TestBusy(t *testing.T) {
	browser := launch(t)
	w, team := busy(t)
	w.start()
	t.Cleanup(w.end)
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("Everyone")
	fold := `[...document.querySelectorAll(".notices:not(.alone)")].at(-1)`
	p.until(`document.querySelectorAll(".bubble").length >= 30 && document.querySelectorAll(".more:not([hidden])").length > 0 && ` + fold)
	c, err := w.Team(team).Config(t.Context())
	must(t, err)
	for _, member := range c.Members[1:4] {
		name := fmt.Sprintf(`[...document.querySelectorAll(".by b")].find(b => b.textContent === %q)`, member.Name)
		if got := value[string](p, name+`.dataset.color + " " + `+name+`.closest(".bubble").querySelector(".face").dataset.color`); got != member.Color+" "+member.Color {
			t.Errorf("%s is %s in config.json, and %q here", member.Name, member.Color, got)
		}
	}
	if !value[bool](p, `[...document.querySelectorAll(".message.follows")].every(e => !e.querySelector(".face").checkVisibility({visibilityProperty: true}) &&
		e.getBoundingClientRect().height < 300)`) {
		t.Error("a following message has an avatar")
	}
	// Notices unfold, each with its subject.
	if value[bool](p, fold+`.querySelector(".step").checkVisibility()`) {
		t.Error("joined notices are unfolded")
	}
	p.run(do(fold + `.querySelector("summary").click()`))
	p.until(fold + `.open && ` + fold + `.querySelectorAll(".step").length > 1 && [...` + fold + `.querySelectorAll(".step")].every(e => / (went idle: |was given a task by team-lead: )/.test(e.textContent))`)
	for _, width := range []int64{390, 1440} {
		p.size(width, 900)
		p.picture(fmt.Sprintf("busy-%d", width))
		for _, theme := range []string{"light", "dark"} {
			p.theme(theme)
			for _, low := range value[[]string](p, contrasts) {
				t.Errorf("%s: %s", theme, low)
			}
		}
		p.choose(busyMembers[len(busyMembers)-1])
		p.picture(fmt.Sprintf("busy-member-%d", width))
		for _, over := range value[[]string](p, `[document.documentElement, ...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > innerWidth && e.checkVisibility() && !e.closest("pre, .table, .unseen, .pair > *")).map(e => e.outerHTML.slice(0, 90))`) {
			t.Errorf("%d wide: %s is cut off", width, over)
		}
		if high := value[int](p, `document.querySelector("main .head").offsetHeight`); high > 80 {
			t.Errorf("%d wide: the head of a member with a long name is %d px high", width, high)
		}
		p.choose("Everyone")
	}
}
