package page_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
)

// accessible checks the page for faults of accessibility, light and dark, wide and narrow.
func (p *tab) accessible(t *testing.T, name string) {
	t.Helper()
	script, err := os.ReadFile(standin.RequireAxe(t))
	must(t, err)
	p.run(do(string(script)))
	for _, width := range []int64{390, 1440} {
		p.size(width, 900)
		for _, theme := range []string{"light", "dark"} {
			p.theme(theme)
			for _, fault := range p.axe() {
				t.Errorf("%s, %d wide, %s: %s", name, width, theme, fault)
			}
		}
		p.picture(fmt.Sprintf("%s-%d", name, width))
	}
}

// Reports of idle agents without content are one line, which unfolds and stays unfolded while more come. A report
// with content is never part of it.
func TestNoiseIsFolded(t *testing.T) {
	browser := launch(t)
	a := newAsker(t, browser, simchild.Script{})
	idle := func(from, more string) {
		t.Helper()
		a.row(from, "team-lead", fmt.Sprintf(`{"type":"idle_notification","from":%q,"idleReason":"available"%s}`, from, more))
	}
	last := func(text string) { // so that they are in the order of the rows
		t.Helper()
		a.row("worker", "team-lead", text)
		a.w.recorded(house, text)
	}
	for _, from := range []string{"worker", "reviewer", "worker", "worker", "reviewer"} {
		idle(from, "")
	}
	idle("worker", `,"result":"All tests pass."`)
	last("One more thing.")
	idle("reviewer", "")
	idle("reviewer", "")
	a.row("reviewer", "team-lead", `{"type":"idle_notification","from":"reviewer","idleReason":"failed","failureReason":"out of credit"}`)
	last("And another one.")
	idle("worker", "") // right after its message: not shown
	idle("reviewer", "")
	idle("reviewer", "")
	a.choose("Everyone")
	heads := `[...document.querySelectorAll(".notices > summary .line")].map(e => e.textContent).join("; ")`
	a.until(heads + ` === "worker and reviewer went idle 5 times; reviewer went idle 2 times; reviewer went idle 2 times"`)
	for _, text := range []string{"All tests pass.", "One more thing.", "out of credit", "And another one."} {
		a.until(`[...document.querySelectorAll(".bubble")].some(e => e.textContent.includes(%s))`, text)
	}
	fold := `[...document.querySelectorAll(".notices")].at(-1)`
	steps := fold + `.querySelectorAll(".step").length`
	if value[bool](a.tab, fold+`.open`) {
		t.Error("the last line is unfolded")
	}
	a.accessible(t, "noise-folded")

	// With the keyboard. The line stays open when more come.
	a.run(do(fold+`.querySelector("summary").focus()`), chromedp.KeyEvent(kb.Enter))
	a.until(fold + `.open && ` + steps + ` === 2`)
	idle("worker", "")
	a.until(fold + `.open && ` + steps + ` === 3 && ` + fold + `.querySelector("summary").textContent.startsWith("reviewer and worker went idle 3 times")`)
	a.focused(`e.matches(".notices > summary")`)
	a.accessible(t, "noise")
	if n := value[int](a.tab, `document.querySelectorAll(".new, .jump:not([hidden])").length`); n > 0 {
		t.Error("reports that say nothing count as new messages")
	}
}

// Two agents that only thank one another can be held with one press, and released with another.
func TestLoopIsHeld(t *testing.T) {
	browser := launch(t)
	a := newAsker(t, browser, simchild.Script{}, "worker", "reviewer")
	pair := [2]string{"worker", "reviewer"}
	for n := range 17 {
		text := fmt.Sprintf("Thank you %02d", n)
		a.w.Send(house, pair[n%2], pair[1-n%2], text)
		a.w.recorded(house, text) // one after the other: messages that come to both at once have no order
	}
	button := func(label string) string {
		return rowOf("worker") + `?.querySelectorAll(".need-acts button").values().find(b => b.textContent === "` + label + `")`
	}
	a.until(button("Hold") + ` !== undefined && ` + rowOf("worker") + `.querySelector(".badge").textContent === "16"`)
	a.accessible(t, "loop")
	a.told("Thank you 15") // no message of the loop is claimed any more
	a.told("Thank you 16")
	a.run(do(button("Hold") + `.focus()`))
	a.key(kb.Enter)
	a.until(rowOf("worker") + `.closest("[data-section]").dataset.section === "needs-you" && ` + rowOf("worker") + `.textContent.includes("Messages are held: by you, in a loop of 16 exchanges")`)
	a.until(rowOf("reviewer") + `.textContent.includes("Messages are held: by you")`)
	a.until(button("Hold") + ` === undefined`)
	a.w.Send(house, "reviewer", "worker", "Thank you again")
	a.w.Send(house, "team-lead", "worker", "Stop it")
	a.told("Stop it")
	list, err := a.w.client().Read(t.Context(), house, api.Reading{Inboxes: []string{"worker"}, Unread: true})
	if err != nil || len(list.Messages) != 1 || list.Messages[0].Text != "Thank you again" {
		t.Errorf("unread: %+v, %v; want what was held", list.Messages, err)
	}
	a.accessible(t, "held")
	a.run(do(button("Release") + `.click()`))
	a.told("Thank you again")
	a.until(button("Release") + ` === undefined && !` + rowOf("reviewer") + `.textContent.includes("are held")`)
}
