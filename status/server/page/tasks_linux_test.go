package page_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/server/page"
)

// task writes a task as Claude Code does.
func (w *world) task(list, id string, fields map[string]any) {
	w.t.Helper()
	dir := filepath.Join(w.Root.Path(), "tasks", list)
	data, err := jsonOf(fields)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	name := filepath.Join(dir, id+".json")
	if err == nil {
		err = os.WriteFile(name+".tmp", data, 0o600)
	}
	if err == nil {
		err = os.Rename(name+".tmp", name)
	}
	must(w.t, err)
}

// looks checks the open view on wide and narrow screens, in light and dark.
func (p *tab) looks(name, axe string) {
	p.t.Helper()
	p.run(do(axe))
	for _, width := range []int64{1440, 390} {
		p.size(width, 900)
		p.picture(fmt.Sprintf("%s-%d", name, width))
		for _, theme := range []string{"light", "dark"} {
			p.theme(theme)
			for _, fault := range p.axeOf("minor") {
				p.t.Errorf("%s, %d wide, %s: %s", name, width, theme, fault)
			}
			for _, low := range value[[]string](p, contrasts) {
				p.t.Errorf("%s, %d wide, %s: %s", name, width, theme, low)
			}
		}
		for _, over := range value[[]string](p, `[document.documentElement, ...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > innerWidth && e.checkVisibility() && !e.closest(".unseen, .ask-lines")).map(e => e.outerHTML.slice(0, 90))`) {
			p.t.Errorf("%s, %d wide: %s is cut off", name, width, over)
		}
	}
	p.size(1280, 800)
}

// board is an expression for the columns, as "pending: #1 subject, …; …".
const board = `[...document.querySelectorAll(".board-column")].map(c => c.dataset.status + ":" + [...c.querySelectorAll(".task")].map(t => " " + t.querySelector(".task-id").textContent + " " + [...t.querySelector(".task-owner").childNodes].filter(n => !n.classList?.contains("face")).map(n => n.textContent).join("").trim()).join(",")).join("; ")`

// The tasks of a team are on a board, which changes as they do.
func TestTasks(t *testing.T) {
	script, err := os.ReadFile(standin.RequireAxe(t))
	must(t, err)
	browser := launch(t)
	w := thirty(t)
	w.start()
	t.Cleanup(w.end)
	teams, err := w.client().Teams(t.Context())
	must(t, err)
	checkout, search := teamAt(teams, "checkout"), teamAt(teams, "search")
	type fields = map[string]any
	w.task(checkout, "1", fields{"subject": "Read the code", "status": "completed", "owner": "backend"})
	w.task(checkout, "2", fields{"subject": "Limit the retries", "activeForm": "Limiting the retries", "description": "As in <b>the issue</b>:\nat most three.", "status": "in_progress", "owner": "backend", "blockedBy": []string{"1"}, "blocks": []string{"3"}})
	w.task(checkout, "3", fields{"subject": "Test the retries", "status": "pending", "owner": "tester", "blockedBy": []string{"1", "2"}})
	w.task(checkout, "4", fields{"subject": "Write the notes", "status": "pending"})
	w.task(search, "1", fields{"subject": "Index", "status": "pending", "owner": "indexer"})

	p := open(t, browser, w, w.address())
	p.live()
	// The row of an agent has its task in progress, and the overview leads to all tasks.
	p.until(rowOf("backend") + `.querySelector(".agent-task").textContent.includes("Limiting the retries")`)
	p.run(do(`document.querySelector(".agents-tasks").click()`))
	p.until(`document.querySelector(".head .doing")?.textContent === "3 pending · 1 in progress · 1 completed" && document.querySelectorAll(".task").length === 5`)
	p.until(`location.hash === "#/tasks"`)
	// Of a team.
	p.run(do(`[...document.querySelectorAll(".task-list")].find(a => a.textContent === "checkout").click()`))
	all := "pending: #3 tester, #4 No owner; in_progress: #2 backend; completed: #1 backend"
	p.until(board+` === %s`, all)
	p.until(`document.querySelector("h1").textContent === "Taskscheckout"`)
	p.until(`document.querySelector('.task[data-waits=true] .task-waits').textContent === "Waits for #2 Limit the retries"`)
	if got := value[string](p, `document.querySelector("[data-status=in_progress] .task details .text").textContent`); got != "As in <b>the issue</b>:\nat most three." {
		t.Errorf("the description is %q", got)
	}
	// The changes are shown when they are unfolded, and as they come.
	const changed = `[...document.querySelectorAll(".task-changes li")].map(e => e.querySelector(".task-change").textContent + " " + e.querySelector(".task-of").textContent).join("; ")`
	p.run(do(`document.querySelector(".task-history summary").click()`))
	p.until(changed + `.startsWith("created: pending Write the notes #4; waits for: – → 1, 2 Test the retries #3; ")`)
	p.looks("tasks", string(script))

	// As they change. An unfolded task stays unfolded, and unchanged cards are kept.
	p.run(do(`document.querySelector("[data-status=in_progress] details").open = true; window.kept = document.querySelector("[data-status=pending] .task:nth-child(2)")`))
	w.task(checkout, "2", fields{"subject": "Limit the retries", "description": "At most three.", "status": "completed", "owner": "backend", "blocks": []string{"3"}})
	p.until(board+` === %s`, "pending: #3 tester, #4 No owner; in_progress:; completed: #2 backend, #1 backend")
	p.until(`document.querySelector(".task-waits") === null && document.querySelector("[data-status=completed] details").open && window.kept.isConnected`)
	p.until(changed + `.startsWith("waits for: 1 → – Limit the retries #2; status: in_progress → completed Limit the retries #2; created: ")`)
	// Filtered, with a URL of its own.
	p.run(do(`{ const s = document.querySelector('[aria-label=Owner]'); s.value = "tester"; s.dispatchEvent(new Event("change")); }`))
	p.until(board+` === %s`, "pending: #3 tester; in_progress:; completed:")
	p.run(chromedp.Reload())
	p.live()
	p.until(board+` === %s`, "pending: #3 tester; in_progress:; completed:")
	// From a team, and from a member.
	p.run(do(`location.hash = ` + quote("#/team/"+checkout+"/backend")))
	p.until(`document.querySelector(".head-links a")?.textContent === "Tasks"`)
	p.run(do(`document.querySelector(".head-links a").click()`))
	p.until(board+` === %s`, "pending:; in_progress:; completed: #2 backend, #1 backend")
	// The service ends, and comes back.
	p.expect("v1")
	w.end()
	p.until(`document.querySelector(".empty")?.textContent.includes("did not answer") && document.querySelectorAll(".task").length === 2`)
	w.start()
	w.task(checkout, "1", fields{"subject": "Read the code", "status": "in_progress", "owner": "backend"})
	p.until(board+` === %s`, "pending:; in_progress: #1 backend; completed: #2 backend")

	// Any text is text, and any number of tasks is drawn in parts.
	for n, text := range page.HostileTexts() {
		w.task(checkout, fmt.Sprint(100+n), fields{"subject": text, "description": text, "activeForm": text, "owner": "tester", "status": []string{"in_progress", "pending", text}[n%3], "blockedBy": []string{text}})
	}
	p.run(do(`location.hash = ` + quote("#/tasks?team="+checkout)))
	p.until(`Number(document.querySelector("[data-status=in_progress] .board-count").textContent) > 3 && document.querySelector("[data-status=other]") !== null`)
	if value[bool](p, `document.querySelector(".task :is(script, img, b b, iframe)") !== null || document.querySelector(".task .text").innerHTML.includes("<b>")`) {
		t.Error("there is markup in a task")
	}
	dir := filepath.Join(w.Root.Path(), "tasks", search)
	for n := range 1200 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(10+n)+".json"), fmt.Appendf(nil, `{"subject": "number %d", "status": "pending"}`, n), 0o600))
	}
	p.run(do(`location.hash = ` + quote("#/tasks?team="+search)))
	p.until(`document.querySelector("[data-status=pending] .board-count")?.textContent === "1201" && document.querySelectorAll(".task").length === 100`)
	p.run(do(`document.querySelector("[data-more=pending]").click()`))
	p.until(`document.querySelectorAll(".task").length === 200`)
	if !slices.Contains(strings.Fields(p.text()), "1201") {
		t.Error("it does not say how many there are")
	}
}
